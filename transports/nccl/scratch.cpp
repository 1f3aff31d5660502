#include "transports/nccl/scratch.hpp"

#include <bit>
#include <map>
#include <mutex>
#include <utility>
#include <vector>

namespace tutti::nccl {
namespace {

// Sizes are powers of two, to increase reuse.
struct Spares {
  std::mutex mutex;
  std::map<std::pair<int, std::size_t>, std::vector<std::shared_ptr<void>>> unused;  // by device and bytes
};

Spares& spares() {
  static auto& all = *new Spares;
  return all;
}

}  // namespace

std::shared_ptr<void> spare_memory(Accelerator& accelerator, int device, std::size_t bytes) {
  const std::pair key(device, std::bit_ceil(bytes));
  std::shared_ptr<void> memory;
  {
    const std::lock_guard lock(spares().mutex);
    auto& unused = spares().unused[key];
    if (!unused.empty()) {
      memory = std::move(unused.back());
      unused.pop_back();
    }
  }
  if (!memory) memory = accelerator.allocate(device, key.second);
  void* const address = memory.get();
  return {address, [memory = std::move(memory), key](void*) mutable {
            const std::lock_guard lock(spares().mutex);
            spares().unused[key].push_back(std::move(memory));
          }};
}

}  // namespace tutti::nccl
