// Room: the device memory that the ranks of one communicator share: staging slots, which all ranks have opened.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "transports/core/process.hpp"
#include "transports/cudaipc/board.hpp"
#include "transports/cudaipc/handles.hpp"
#include "tutti/provider/provider.hpp"

namespace tutti::cudaipc {

/// One message to each other rank and one from each, all of the same size. Their memory outlives this object while the
/// transport uses it.
class PeerMessages {
 public:
  PeerMessages(Transport& wire, const Group& group, std::size_t bytes);
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

/// Calls pass through two slots in turn, a piece at a time. A rank writes piece n to its slot after all other ranks
/// have reported that their piece n - 1 is in their slot. A rank reports this when its stream has reached that point.
/// The stream has then also read piece n - 2 of all ranks, which piece n overwrites.
class Room {
 public:
  static constexpr std::size_t slot_bytes = 8 << 20;
  static constexpr std::size_t slots = 2;  // together 16 MiB of device memory; the limit is 32 MiB

  /// Collective; blocks. Throws Error{unsupported} if these ranks cannot share memory.
  explicit Room(const BackendMeeting& meeting);
  /// Waits, for half a second at most, until all other ranks have read this rank's slots, are quiet, or have exited.
  /// Otherwise the slots are leaked, because they may still be read.
  ~Room();

  int rank() const noexcept { return group_.rank; }
  int size() const noexcept { return group_.size(); }
  const Group& group() const noexcept { return group_; }
  Accelerator& accelerator() const noexcept { return accelerator_; }
  Transport& wire() const noexcept { return wire_; }
  int device() const noexcept { return device_; }
  const Stream& stream() const noexcept { return *stream_; }

  /// Counts one more piece; returns the number of its slot.
  std::size_t next_slot() noexcept { return pieces_++ % slots; }
  std::byte* slot(int rank, std::size_t number) const {
    return seen_slots_[static_cast<std::size_t>(rank)] + number * slot_bytes;
  }
  /// The number of pieces started; equal on all ranks at the end of a call.
  std::uint64_t pieces() const noexcept { return pieces_; }
  /// Tells the other ranks that this rank's stream has read the first `pieces` pieces.
  void have_read(std::uint64_t pieces) noexcept { board_.have_read(rank(), pieces); }
  /// After a failure: tells the other ranks that nothing of this communicator is on this rank's stream any more.
  void be_quiet() noexcept { board_.be_quiet(rank()); }
  /// True if no other rank uses this rank's memory any more: all others are quiet or have exited.
  bool all_quiet() const noexcept;

  Shared& shared() noexcept { return shared_; }
  /// Opens memory of another rank. Returns null if that is not possible yet; call it again later. Throws Error.
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
  std::vector<std::uint64_t> names_;                       // by rank: the process's id
  Owned<Stream> stream_;
  std::shared_ptr<void> own_slots_;
  std::vector<std::byte*> seen_slots_;  // by rank
  std::vector<std::shared_ptr<const Mapping>> others_slots_;
  Shared shared_;
  Mappings& mappings_;
  std::uint64_t pieces_ = 0;
};

}  // namespace tutti::cudaipc
