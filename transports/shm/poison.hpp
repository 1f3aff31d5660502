// The record of failures in the segment: what every rank of the host sees, however full its rings are.
#pragma once

#include <atomic>
#include <cstdint>
#include <span>

#include "transports/core/status.hpp"

namespace tutti::shm {

/// One cause. The only memory in the segment with several writers: whoever claims it writes it.
struct PoisonSlot {
  enum State : std::uint32_t { empty, claimed, published };
  std::atomic<std::uint32_t> state{empty};
  Cause cause;

  /// Claims, writes, publishes. False where somebody else was first.
  bool post(const Cause& why) noexcept;

  /// True, and the cause, once it is published.
  bool read(Cause& why) const noexcept;
};

/// Causes about ranks of this host have a slot by local index, so that a second death is told too; the
/// others (a rank elsewhere, nobody) share what follows, first come, first served, and each once.
class PoisonTable {
 public:
  static constexpr int shared_slots = 16;

  PoisonTable() = default;
  PoisonTable(std::atomic<std::uint32_t>& changes, std::span<PoisonSlot> slots, int ranks) noexcept
      : changes_(&changes), slots_(slots), ranks_(ranks) {}

  /// Posts `why`; `local` is its culprit's local index, -1 for others. Returns the slot that now
  /// speaks of that culprit, -1 when all are taken; `first` tells whether it is this call's.
  int post(const Cause& why, int local, bool& first) noexcept;

  bool read(int slot, Cause& why) const noexcept { return slots_[static_cast<std::size_t>(slot)].read(why); }
  int slots() const noexcept { return static_cast<int>(slots_.size()); }

  /// Grows with every cause published: the one word that a spinning rank reads.
  std::uint32_t changes() const noexcept { return changes_->load(std::memory_order_acquire); }

 private:
  std::atomic<std::uint32_t>* changes_ = nullptr;
  std::span<PoisonSlot> slots_;
  int ranks_ = 0;
};

}  // namespace tutti::shm
