// Room: what the ranks of one communicator have in common on their devices: staging slots, opened by all.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "transports/core/process.hpp"
#include "transports/cudaipc/board.hpp"
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

/// Pieces of calls take turns in two slots. A rank writes to its slot for a piece when all others have said that theirs
/// of the piece before is ready, which they say when their streams have got there: so they have read what the slot
/// held for the piece before that.
class Room {
 public:
  static constexpr std::size_t slot_bytes = 8 << 20;
  static constexpr std::size_t slots = 2;  // 16 MiB of the 32 that a communicator may have

  /// Collective; blocks. Throws Error{unsupported} where these ranks cannot share memory.
  explicit Room(const BackendMeeting& meeting);
  /// Waits until all others have read this rank's slots, or have ended: a moment. What may still be read then is kept
  /// for as long as the process lives.
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
  /// That began here; equal on all ranks at the end of a call.
  std::uint64_t pieces() const noexcept { return pieces_; }
  /// This rank's stream has done what it had to with the first so many pieces.
  void have_read(std::uint64_t pieces) noexcept { board_.have_read(rank(), pieces); }
  /// After a failure, when nothing of this communicator is on the stream any more.
  void be_quiet() noexcept { board_.be_quiet(rank()); }
  /// Whether none of the others uses this rank's memory any more: they are quiet, or have ended.
  bool all_quiet() const noexcept;

  Shared& shared() noexcept { return shared_; }
  /// Another rank's memory; null: not yet, ask again. Throws Error.
  std::shared_ptr<const Mapping> opened(int rank, const Reference& place) {
    return mappings_.open(names_[static_cast<std::size_t>(rank)], place);
  }

 private:
  struct Facts;
  void agree_to_share(const BackendMeeting& meeting);
  bool left_alone() const noexcept;
  bool is_quiet(int peer) const noexcept;
  template <class T>
  std::vector<T> exchanged(const BackendMeeting& meeting, const char* what, const T& own) const;
  void open(const std::vector<Reference>& slots_of, Deadline until);

  const Group group_;
  Accelerator& accelerator_;
  Transport& wire_;
  const int device_;
  Board board_;
  std::vector<std::shared_ptr<const Process>> processes_;  // by rank
  std::vector<std::uint64_t> names_;                       // of these
  Owned<Stream> stream_;
  std::shared_ptr<void> own_slots_;
  std::vector<std::byte*> seen_slots_;  // by rank
  std::vector<std::shared_ptr<const Mapping>> others_slots_;
  Shared shared_;
  Mappings& mappings_;
  std::uint64_t pieces_ = 0;
};

}  // namespace tutti::cudaipc
