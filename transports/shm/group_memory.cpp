#include "transports/shm/group_memory.hpp"

#include <thread>
#include <utility>

#include "tutti/clock.hpp"

namespace tutti::shm {

GroupMemory::GroupMemory(std::shared_ptr<HostState> host_state, const Group& group, std::vector<int> locals,
                         bool all_read_all)
    : host_state_(std::move(host_state)),
      group_(group),
      locals_(std::move(locals)),
      all_read_all_(all_read_all),
      slot_bytes_(slot_bytes_of(group.id, group.size())),
      slabs_(locals_.size(), nullptr),
      entered_(locals_.size(), 0),
      missing_(group_.size()),
      pushing_(locals_.size()) {}

GroupMemory::~GroupMemory() {
  if (own_.slab == nullptr) return;
  if (own_.slab->shots != 0) host_state_->shots().leave(*this);
  if (own_.slab->rounds != 0 && own_.shares_rounds) host_state_->rounds().leave(*this);
  host_state_->retire(own_, locals_);
}

void GroupMemory::open_slab() {
  own_ = host_state_->open_slab(group_.id);
  slabs_[static_cast<std::size_t>(rank())] = own_.slab;
  --missing_;
  host_state_->wake(locals_);
}

Awaited GroupMemory::look_around() {
  for (int other = 0; other < size(); ++other) {
    const Slab*& slab = slabs_[static_cast<std::size_t>(other)];
    if (slab != nullptr) continue;
    const Word& changes = host_state_->changes(local(other));
    const std::uint64_t before = changes.load(std::memory_order_acquire);
    slab = host_state_->find(local(other), group_.id);
    if (slab == nullptr) return {&changes, before + 1, other};
    --missing_;
  }
  return {};
}

void GroupMemory::take_rounds() {
  own_.shares_rounds = slot_bytes_ == room_bytes;
  own_.slab->rounds = own_.shares_rounds ? host_state_->rounds().take(*this) : host_state_->take(2 * slot_bytes_);
}

// `room` has this rank's slots for rounds or for one-shot calls. A rank stores `finished` or `gathered` once it has
// read all that it needs from the others and, with two ranks, written its share into the other's slot. No rank accesses
// the room again before this rank publishes the offset of another one.
bool GroupMemory::gives_up(std::size_t room) noexcept {
  if (!open()) return false;
  const bool is_shots = room == own_.slab->shots;
  for (const Slab* const slab : slabs_) {
    const std::uint64_t done = (is_shots ? slab->finished : slab->gathered).load(std::memory_order_acquire);
    if (done < (is_shots ? last_shot_ : rounds_end_)) return false;
  }
  (is_shots ? own_.slab->shots : own_.slab->rounds) = 0;
  return true;
}

std::optional<Awaited> GroupMemory::look_who_is_behind(std::uint64_t number) noexcept {
  const std::uint64_t least = number - std::min(number, most_ahead);
  std::uint64_t all = number;
  const auto entry = [this](int other, std::uint64_t call) {
    return Awaited{&call_of(other, call).stamp, least_stamp(call), other};
  };
  for (int other = 0; other < size(); ++other) {
    std::uint64_t& entered = entered_[static_cast<std::size_t>(other)];
    if (other == rank()) continue;
    if (entered < least && entry(other, number - 1).reached()) entered = number - 1;  // spares checks in later calls
    if (entered < least) {
      if (const Awaited late = entry(other, least); !late.reached()) return late;
      entered = least;
    }
    all = std::min(all, entered);
  }
  all_entered_ = all;
  return std::nullopt;
}

bool GroupMemory::leave_alone(int dead) noexcept {
  if (own_.slab == nullptr || !open()) return true;
  own_.slab->cancelled.store(1, std::memory_order_relaxed);
  heavy_barrier();
  const Deadline stopped_until = deadline_in(Seconds(0.05)), until = deadline_in(Seconds(1));
  for (int other = 0; other < size(); ++other) {
    if (other == rank() || world_rank(other) == dead) continue;
    while (of(other).touching.load(std::memory_order_acquire) != 0) {
      const auto now = Clock::now();
      // A preempted process continues soon; a stopped one may never.
      if (now > until || (now > stopped_until && !process_runs(host_state_->process(local(other))))) return false;
      std::this_thread::yield();
    }
  }
  return true;
}

void GroupMemory::quarantine(const std::byte* in, const std::byte* out) noexcept {
  for (const std::byte* data : {in, out}) host_state_->quarantine(data);
}

void* GroupMemory::frame(std::size_t bytes) {
  const std::size_t lines = (bytes + sizeof(Line) - 1) / sizeof(Line);
  if (frame_.size() < lines) frame_.resize(lines);
  return frame_.data();
}

}  // namespace tutti::shm
