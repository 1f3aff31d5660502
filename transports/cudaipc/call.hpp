// IpcCall: one collective by ranks that reach one another's device memory.
//
// Streams never wait for other processes. What a rank has put on its stream for others it tells them of, by a message,
// when the device has done it, and they put on theirs what comes after that. What CUDA promises there: all that comes
// before an event which cudaEventQuery() finds done has been done, and whatever is submitted afterwards sees it; and
// the message is what makes it afterwards in another process. So a rank that dies leaves nothing that waits for it.
//
// Little ones are copied to the rank's slot; then they are there, and every rank reads what it needs: one message to
// each other rank. With large ones everybody first offers: here is my input (a handle, an offset), or it cannot be
// shared. If all of it can, it is read where it is, in one go, and all say when they have read; else it goes through
// the slots in pieces. In a large allreduce every rank folds a part: directly, from where all have theirs to where all
// want it, P N read and P N written in all, the least there can be; by the slots, into its own, and then it reads the
// others' parts.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "transports/backend.hpp"
#include "transports/cudaipc/room.hpp"
#include "transports/cudaipc/shape.hpp"

namespace tutti::cudaipc {

/// Calls in which ranks show one another up to so many bytes are little ones.
inline constexpr std::size_t little_bytes = 256 << 10;

class IpcCall {
 public:
  IpcCall(Room& room, const Call& call);

  /// Once, when it is the call's turn. Throws Error.
  void begin();
  /// Carries on where the device and the others' messages allow it; true where something moved. Throws Error.
  bool advance();
  /// Everything is on the stream; the other ranks use nothing of this call once the stream has got there.
  bool enqueued() const noexcept { return step_ == Step::over; }
  /// Whether other ranks may write to the call's result.
  bool lends_result() const noexcept { return lent_ && !enqueued(); }
  std::string where() const;

 private:
  // What this rank is about to tell the others: that it can be read, and where; that a piece is in its slot; that its
  // part is folded; that it has read all.
  enum class News { offer, there, half, read };
  // What the call waits for: its turn and the caller's stream, the device, the others, and what is to be closed before
  // memory of theirs can be opened.
  enum class Step { idle, caller, device, others, opening, over };
  // The first message of a call, from one rank to another.
  struct Offer {
    Reference in, out;
    std::uint64_t at = 0;       // bytes from `in` to what the other one reads
    std::uint64_t largest = 0;  // that this rank shows to anybody
    std::uint64_t direct = 0;   // 1: it may be read where it is
  };

  // Where the piece's bytes are, by rank.
  struct Piece {
    std::size_t slot = 0;
    std::size_t at = 0, most = SIZE_MAX;  // of every block, in bytes
    std::vector<const std::byte*> sources;
    std::vector<std::byte*> results;  // of an allreduce in parts: direct, where each rank wants it; else its slot
    std::byte* own_result = nullptr;
  };

  bool little() const noexcept;
  bool may_be_read_in_place() const;
  void first();
  void make_offer();
  Offer offer_to(int peer) const;
  void offered();
  bool open_all();
  std::byte* opened(std::size_t rank, const Reference& place);
  void begin_slice();
  void stage();
  void tell(News news);
  void send_news();
  void heard();
  void main_part();
  void second_half();
  void end_slice();
  void end_call();

  std::size_t bytes_of(std::size_t block) const noexcept;
  bool blocks_apart() const noexcept;
  bool in_parts() const noexcept;
  Fold fold() const noexcept;
  void fold_into(std::vector<std::byte*> places, std::size_t from, std::size_t bytes);
  void copy(std::byte* into, const std::byte* from, std::size_t bytes);
  std::byte* own_input() const noexcept;

  Room& room_;
  const Call& made_by_;
  const Collective& call_;
  const Part part_;
  Reference in_, out_;
  std::vector<Offer> offers_;                           // by rank
  std::vector<std::shared_ptr<const Mapping>> mapped_;  // while it may be used
  bool direct_ = false, lent_ = false;
  Step step_ = Step::idle;
  News news_ = News::offer;
  Owned<Event> done_;  // on this rank's stream: what the news is of
  std::uint32_t lane_ = 0;
  std::optional<Letters> letters_;
  Piece piece_;
  std::size_t area_ = 0, slices_ = 1, slice_ = 0;
};

}  // namespace tutti::cudaipc
