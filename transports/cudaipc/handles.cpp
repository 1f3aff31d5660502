#include "transports/cudaipc/handles.hpp"

#include <algorithm>
#include <random>
#include <tuple>

#include "transports/core/deferred_release.hpp"
#include "tutti/fork.hpp"

namespace tutti::cudaipc {

std::uint64_t name_of_this_process() {
  static std::mutex mutex;
  static std::map<std::uint32_t, std::uint64_t> names;  // by generation of forks
  const std::lock_guard lock(mutex);
  const auto [name, fresh] = names.try_emplace(fork_generation());
  if (fresh) {
    std::random_device random;
    name->second = std::uint64_t{random()} << 32 | random();
  }
  return name->second;
}

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
  made.bytes = whole.bytes;
  made.offset = static_cast<std::uint64_t>(static_cast<const std::byte*>(memory) - whole.base);
  made.handle = known_.at(whole.base).handle;
  return made;
}

Mapping::~Mapping() {
  among_.accelerator_.close(seen_);
  const std::lock_guard lock(among_.mutex_);
  among_.open_.erase(range_);
}

Mappings& Mappings::of(Accelerator& accelerator, int device) {
  static auto& mutex = *new std::mutex;  // never destroyed: may be used while the program exits
  static auto& all = *new std::map<std::tuple<std::uint32_t, Accelerator*, int>, std::unique_ptr<Mappings>>;
  const std::lock_guard lock(mutex);
  auto& one = all[{fork_generation(), &accelerator, device}];  // entries of a parent process are kept
  if (!one) one = std::make_unique<Mappings>(accelerator, device);
  return *one;
}

void Mappings::enter() {
  const std::lock_guard lock(mutex_);
  ++communicators_;
}

void Mappings::leave() {
  const std::lock_guard lock(mutex_);
  if (--communicators_ == 0) kept_.clear();
}

std::shared_ptr<const Mapping> Mappings::open(std::uint64_t owner, const Reference& place, Then then) {
  const std::lock_guard lock(mutex_);
  const auto known =
      std::ranges::find_if(kept_, [&](const Kept& one) { return one.owner == owner && one.id == place.id; });
  if (known != kept_.end()) {
    kept_.splice(kept_.begin(), kept_, known);
    return known->mapping;
  }
  const Mapping::Range range{owner, place.base, place.bytes};
  const auto overlaps = [&](const Mapping::Range& other) { return other.overlaps(range); };
  std::erase_if(kept_, [&](const Kept& one) { return overlaps(*one.mapping->range_); });
  if (std::ranges::any_of(open_, overlaps)) return nullptr;
  make_room();
  std::byte* const seen = accelerator_.open(place.handle, device_);
  open_.push_front(range);
  const std::shared_ptr<const Mapping> mapping(new Mapping(*this, open_.begin(), seen), [](const Mapping* one) {
    deferred_release(std::unique_ptr<const Mapping>(one));
  });
  if (then == Then::keep) kept_.push_front({owner, place.id, mapping});
  return mapping;
}

void Mappings::make_room() {
  for (auto one = kept_.end(); one != kept_.begin() && kept_.size() >= most;)
    if ((--one)->mapping.use_count() == 1) one = kept_.erase(one);
}

}  // namespace tutti::cudaipc
