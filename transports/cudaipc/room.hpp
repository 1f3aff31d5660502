// Room: what the ranks of one communicator have in common on their devices: staging slots and events, opened by all.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "transports/cudaipc/handles.hpp"
#include "transports/provider.hpp"

namespace tutti::cudaipc {

/// One message to each other rank, and one from each, all of one size. Whoever drops it leaves the memory to the wire.
class Letters {
 public:
  Letters(Transport& wire, const Group& group, std::size_t bytes);
  std::byte* to(int rank) { return box_->sent[static_cast<std::size_t>(rank)].data(); }
  const std::byte* from(int rank) const { return box_->received[static_cast<std::size_t>(rank)].data(); }
  void exchange(std::uint32_t sequence, std::uint32_t lane, std::uint64_t signature);
  bool all_here() const noexcept { return box_->missing == 0; }
  const Status& failure() const noexcept { return box_->failure; }

 private:
  struct Box {
    std::vector<std::vector<std::byte>> sent, received;  // by rank
    std::size_t missing = 0;
    Status failure;
  };
  Transport& wire_;
  const Group& group_;
  std::shared_ptr<Box> box_;
};

/// Events tell other ranks that something of a piece is done: what they may read is there; halves are folded; what
/// they share has been read.
enum class Mark : std::size_t { there = 0, half = 1, read = 2 };
inline constexpr std::size_t marks = 3;

/// Pieces of calls take turns in two slots, one after the other as far as the host goes: when a rank begins a piece,
/// all have put everything of the piece but one before on their streams. So an event is recorded anew only after all
/// waits for its last meaning have been made.
class Room {
 public:
  static constexpr std::size_t slot_bytes = 8 << 20;
  static constexpr std::size_t slots = 2;  // 16 MiB of the 32 that a communicator may have

  /// Collective; blocks. Throws Error{unsupported} where these ranks cannot share memory.
  explicit Room(const BackendMeeting& meeting);
  ~Room();

  int rank() const noexcept { return group_.rank; }
  int size() const noexcept { return group_.size(); }
  const Group& group() const noexcept { return group_; }
  Accelerator& accelerator() const noexcept { return accelerator_; }
  Transport& wire() const noexcept { return wire_; }
  int device() const noexcept { return device_; }
  const Stream& stream() const noexcept { return *stream_; }

  /// The slot of the piece that begins.
  std::size_t next_slot() noexcept { return pieces_++ % slots; }
  std::byte* slot(int rank, std::size_t number) const {
    return seen_slots_[static_cast<std::size_t>(rank)] + number * slot_bytes;
  }
  void record(std::size_t slot, Mark mark);
  void wait_for_others(std::size_t slot, Mark mark);
  /// After a failure: lets go what waits for other ranks' events, which a rank that has ended never records. They are
  /// recorded here.
  void release_waits();

  Shared& shared() noexcept { return shared_; }
  Opened& opened(int rank) { return opened_[static_cast<std::size_t>(rank)]; }

 private:
  struct Facts;
  struct Card;
  void agree_to_share(const BackendMeeting& meeting) const;
  Card own_card();
  template <class T>
  std::vector<T> exchanged(const BackendMeeting& meeting, const char* what, const T& own) const;
  void open(const std::vector<Card>& cards);
  Event& event(int rank, std::size_t slot, Mark mark) {
    return events_[static_cast<std::size_t>(rank)][slot * marks + static_cast<std::size_t>(mark)];
  }

  const Group group_;
  Accelerator& accelerator_;
  Transport& wire_;
  const int device_;
  Owned<Stream> stream_;
  std::shared_ptr<void> own_slots_;
  std::vector<std::byte*> seen_slots_;                    // by rank
  std::vector<std::array<Event, slots * marks>> events_;  // by rank
  std::vector<Owned<Event>> kept_;                        // all of them
  Shared shared_;
  std::vector<Opened> opened_;  // by rank
  std::uint64_t pieces_ = 0;
};

}  // namespace tutti::cudaipc
