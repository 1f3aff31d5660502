#include "transports/cudaipc/handles.hpp"

#include <algorithm>

namespace tutti::cudaipc {

Reference Shared::of(const void* memory) {
  const Allocated whole = accelerator_.allocation_of(memory);
  const auto found = known_.find(whole.base);
  if (found == known_.end() || found->second.id != whole.id) {
    ++asked_;
    known_.insert_or_assign(whole.base, Known{whole.id, accelerator_.share(whole)});
  }
  Reference made;
  made.id = whole.id;
  made.base = reinterpret_cast<std::uintptr_t>(whole.base);
  made.offset = static_cast<std::uint64_t>(static_cast<const std::byte*>(memory) - whole.base);
  made.handle = known_.at(whole.base).handle;
  return made;
}

Opened::~Opened() {
  for (const Entry& one : entries_) accelerator_.close(one.seen);
}

std::byte* Opened::at(const Reference& place, std::uint64_t call, std::uint64_t ended) {
  auto found = std::ranges::find(entries_, place.id, &Entry::id);
  if (found == entries_.end()) {
    tidy(place.base, ended);
    entries_.push_front({place.id, place.base, accelerator_.open(place.handle, device_), call});
  } else {
    entries_.splice(entries_.begin(), entries_, found);
  }
  entries_.front().used = call;
  return entries_.front().seen + place.offset;
}

void Opened::tidy(std::uint64_t base, std::uint64_t ended) {
  const auto close = [&](const Entry& one) {
    accelerator_.close(one.seen);
    return true;
  };
  std::erase_if(entries_, [&](const Entry& one) { return one.base == base && one.used <= ended && close(one); });
  for (auto one = entries_.end(); one != entries_.begin() && entries_.size() >= most;)
    if ((--one)->used <= ended && close(*one)) one = entries_.erase(one);
}

}  // namespace tutti::cudaipc
