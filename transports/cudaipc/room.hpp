// Room: what the ranks of one communicator share on their devices: staging slots, opened by all ranks.
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

/// One message to and from each other rank, all of the same size. When dropped, the transport may still use the
/// memory.
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

/// Pieces of calls alternate between two slots. A rank writes a piece to its slot only after all others have said
/// that their previous piece is ready. They say so when their stream has reached it, and so have read what the slot
/// held two pieces ago.
class Room {
 public:
  static constexpr std::size_t slot_bytes = 8 << 20;
  static constexpr std::size_t slots = 2;  // 16 MiB of the 32 MiB allowed per communicator

  /// Collective; blocks. Throws Error{unsupported} if these ranks cannot share memory.
  explicit Room(const BackendMeeting& meeting);
  /// Waits briefly until all other ranks have read this rank's slots or have exited. Memory that may still be read is
  /// leaked.
  ~Room();

  int rank() const noexcept { return group_.rank; }
  int size() const noexcept { return group_.size(); }
  const Group& group() const noexcept { return group_; }
  Accelerator& accelerator() const noexcept { return accelerator_; }
  Transport& wire() const noexcept { return wire_; }
  int device() const noexcept { return device_; }
  const Stream& stream() const noexcept { return *stream_; }

  /// The slot for the next piece.
  std::size_t next_slot() noexcept { return pieces_++ % slots; }
  std::byte* slot(int rank, std::size_t number) const {
    return seen_slots_[static_cast<std::size_t>(rank)] + number * slot_bytes;
  }
  /// The number of pieces started; equal on all ranks at the end of a call.
  std::uint64_t pieces() const noexcept { return pieces_; }
  /// This rank's stream is done with the first `pieces` pieces.
  void have_read(std::uint64_t pieces) noexcept { board_.have_read(rank(), pieces); }
  /// After a failure: nothing of this communicator is on this rank's stream any more.
  void be_quiet() noexcept { board_.be_quiet(rank()); }
  /// Whether no other rank uses this rank's memory any more: all are quiet or have exited.
  bool all_quiet() const noexcept;

  Shared& shared() noexcept { return shared_; }
  /// Opens another rank's memory; null: not possible yet, try again. Throws Error.
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
