// Slots: how many messages may be under way between two ranks, so that a receiver always has room for what comes.
//
// Each rank keeps `data_slots` registered slots for what a peer sends, and `spare_slots` more. A message takes one of
// the receiver's slots, and so one of the sender's credits; the credit comes back, with whatever message goes next in
// the other direction, once the slot has been read and offered to the card again. A rank that has half of all credits
// to return and nothing else to say sends an empty message, which takes no credit: there are spare slots for as many of
// these as can be on their way, as the peer cannot have used credits from the one before the last without having read
// that one.
#pragma once

#include <cstddef>
#include <cstdint>

namespace tutti::ibverbs {

inline constexpr int data_slots = 8;
inline constexpr int spare_slots = 3;
inline constexpr std::size_t slot_bytes = 12 << 10;
inline constexpr int in_slots = data_slots + spare_slots;
inline constexpr int offered_at_once = 2;  // slots that were read

/// What a pair of ranks has registered, at each end.
inline constexpr std::size_t pair_bytes = (in_slots + data_slots) * slot_bytes;

class SlotCredit {
 public:
  bool may_send() const noexcept { return ours_ > 0; }
  /// A message with data goes: returns the credits that go along.
  std::uint32_t take() noexcept {
    --ours_;
    return take_owed();
  }
  /// An empty message goes.
  std::uint32_t take_owed() noexcept {
    const std::uint32_t owed = owed_;
    owed_ = 0;
    return owed;
  }
  /// A message brought so many back; false: more than were ever given.
  bool give(std::uint32_t returned) noexcept {
    if (returned > static_cast<std::uint32_t>(data_slots - ours_)) return false;
    ours_ += static_cast<int>(returned);
    return true;
  }
  /// A message with data has come; false: for which there was no credit.
  bool arrived() noexcept { return ++unread_ + owed_ <= static_cast<std::uint32_t>(data_slots); }
  /// The slots of so many are free again, and the card has them.
  void read(std::uint32_t slots) noexcept {
    unread_ -= slots;
    owed_ += slots;
  }
  bool owes() const noexcept { return owed_ >= data_slots / 2; }

 private:
  int ours_ = data_slots;     // that may still go
  std::uint32_t unread_ = 0;  // that have come, and lie in their slots
  std::uint32_t owed_ = 0;    // slots that are free again, which the peer does not know of
};

}  // namespace tutti::ibverbs
