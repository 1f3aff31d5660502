// Memories: a table of regions in descending order of address, so that lower_bound finds the region that may contain
// an address.
#include "transports/ibverbs/memories.hpp"

namespace tutti::ibverbs {

std::shared_ptr<void> Memories::keep(std::shared_ptr<void> memory, std::size_t bytes) {
  const auto first = static_cast<const std::byte*>(memory.get());
  {
    const std::lock_guard lock(mutex_);
    if (domain_ == nullptr) return memory;
    Region region(ibv_reg_mr(domain_, memory.get(), bytes, IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE));
    if (!region) return memory;
    regions_[first] = std::move(region);
  }
  void* const same = memory.get();
  return {same, [table = shared_from_this(), first, memory = std::move(memory)](void*) mutable {
            table->drop(first);
            memory.reset();
          }};
}

const ibv_mr* Memories::find(ConstBytes bytes) const noexcept {
  const std::lock_guard lock(mutex_);
  const auto found = regions_.lower_bound(bytes.data());
  if (found == regions_.end()) return nullptr;
  const ibv_mr* const region = found->second.get();
  return bytes.data() + bytes.size() <= found->first + region->length ? region : nullptr;
}

void Memories::drop(const std::byte* memory) noexcept {
  const std::lock_guard lock(mutex_);
  regions_.erase(memory);
}

void Memories::close() noexcept {
  const std::lock_guard lock(mutex_);
  domain_ = nullptr;
  regions_.clear();
}

}  // namespace tutti::ibverbs
