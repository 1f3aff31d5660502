// Slots: credit-based flow control between two ranks, which guarantees that a receive is posted for every message.
//
// Each rank has `data_slots` registered slots for data from a peer, and `spare_slots` more. A data message takes a slot
// of the receiver and a credit of the sender. The credit returns with the next message in the other direction after the
// slot was read and posted again. A rank that owes half of all credits and has no data to send sends an empty message,
// which takes no credit. The spare slots suffice for all empty messages in flight: before a rank owes credits for one
// more, the peer has used credits of the last empty message but one, and so has read that message.
#pragma once

#include <cstddef>
#include <cstdint>

namespace tutti::ibverbs {

inline constexpr int data_slots = 8;
inline constexpr int spare_slots = 3;
inline constexpr std::size_t slot_bytes = 12 << 10;
inline constexpr int in_slots = data_slots + spare_slots;
inline constexpr int offered_at_once = 2;  // slots posted together after they were read

/// Bytes registered at each end of a pair.
inline constexpr std::size_t pair_bytes = (in_slots + data_slots) * slot_bytes;

class SlotCredit {
 public:
  bool may_send() const noexcept { return ours_ > 0; }
  /// A data message is sent; returns the credits to send with it.
  std::uint32_t take() noexcept {
    --ours_;
    return take_owed();
  }
  /// An empty message is sent; returns the credits to send with it.
  std::uint32_t take_owed() noexcept {
    const std::uint32_t owed = owed_;
    owed_ = 0;
    return owed;
  }
  /// A message returned credits; false if there are more than were taken.
  bool give(std::uint32_t returned) noexcept {
    if (returned > static_cast<std::uint32_t>(data_slots - ours_)) return false;
    ours_ += static_cast<int>(returned);
    return true;
  }
  /// A data message arrived; false if the sender had no credit for it.
  bool arrived() noexcept { return ++unread_ + owed_ <= static_cast<std::uint32_t>(data_slots); }
  /// `slots` slots were read and posted again.
  void read(std::uint32_t slots) noexcept {
    unread_ -= slots;
    owed_ += slots;
  }
  bool owes() const noexcept { return owed_ >= data_slots / 2; }

 private:
  int ours_ = data_slots;     // credits left for sending
  std::uint32_t unread_ = 0;  // messages received and not read
  std::uint32_t owed_ = 0;    // credits not returned yet
};

}  // namespace tutti::ibverbs
