// The record of failures in the segment, which every rank of the host sees even when its rings are full.
#pragma once

#include <atomic>
#include <cstdint>
#include <span>

#include "tutti/status.hpp"

namespace tutti::shm {

/// One cause. Several ranks may try to write it; the rank that claims the slot does.
struct PoisonSlot {
  enum State : std::uint32_t { empty, claimed, published };
  std::atomic<std::uint32_t> state{empty};
  Cause cause;

  /// Claims the slot, writes the cause and publishes it. False if another rank has claimed the slot.
  bool post(const Cause& why) noexcept;

  /// Copies the cause and returns true if it is published.
  bool read(Cause& why) const noexcept;
};

/// Each local rank has a slot for the cause that ends all communicators because of this rank. So the failure of a
/// second rank is reported too. All other causes (about a rank of another host, about no rank, or for one communicator)
/// share the remaining slots in order of arrival. Each cause is recorded once.
class PoisonTable {
 public:
  static constexpr int shared_slots = 64;

  PoisonTable() = default;
  PoisonTable(std::atomic<std::uint32_t>& changes, std::span<PoisonSlot> slots, int ranks) noexcept
      : changes_(&changes), slots_(slots), ranks_(ranks) {}

  /// Posts `why`; `local` is the culprit's local index, -1 if it has none. Returns the slot that holds this cause, or
  /// another cause about this local rank; -1 if all slots are taken. `first`: true if this call wrote the slot.
  int post(const Cause& why, int local, bool& first) noexcept;

  bool read(int slot, Cause& why) const noexcept { return slots_[static_cast<std::size_t>(slot)].read(why); }
  int slots() const noexcept { return static_cast<int>(slots_.size()); }

  /// Incremented with every published cause. A rank that polls the record reads only this word.
  std::uint32_t changes() const noexcept { return changes_->load(std::memory_order_acquire); }

 private:
  std::atomic<std::uint32_t>* changes_ = nullptr;
  std::span<PoisonSlot> slots_;
  int ranks_ = 0;
};

}  // namespace tutti::shm
