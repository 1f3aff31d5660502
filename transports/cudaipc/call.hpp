// IpcCall: one collective between ranks that can access each other's device memory.
//
// Streams never wait for other processes. When the device has finished what a rank enqueued for the others, the host
// tells them by a message, and they enqueue the work that depends on it. CUDA guarantees that everything before an
// event that cudaEventQuery() reports as complete is done and visible to work submitted afterwards; the message orders
// the submission in the other process. So if a rank dies, no stream is left that waits for it.
//
// Small calls: each rank copies its data to its slot, a buffer that all ranks have opened, and sends one message to
// each other rank, which then reads what it needs. Large calls: each rank first offers its input (a handle and an
// offset), or says that it cannot be shared. If all inputs can be shared, they are read in place, and the ranks tell
// each other when they have read; otherwise the data goes through the slots in pieces. In a large allreduce each rank
// folds one part of the elements. In place, it reads this part of all inputs and writes the result to all outputs: P
// ranks with N bytes each read P N bytes and write P N bytes in total, which is the minimum. Through the slots, it
// folds into its own slot, from which the other ranks read the result.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "transports/cudaipc/room.hpp"
#include "transports/cudaipc/shape.hpp"
#include "tutti/provider/backend.hpp"

namespace tutti::cudaipc {

/// A call is small if its counts are equal on all ranks and its block has at most this many bytes.
inline constexpr std::size_t little_bytes = 256 << 10;

class IpcCall {
 public:
  IpcCall(Room& room, const Call& call);

  /// Called once, when it is the call's turn. Throws Error.
  void begin();
  /// Advances as far as the device and the messages allow; returns true if anything moved. Throws Error.
  bool advance();
  /// True if all work of the call is enqueued. Once the stream has then completed, other ranks do not use its memory.
  bool enqueued() const noexcept { return step_ == Step::over; }
  /// True if other ranks may write to this call's result.
  bool lends_result() const noexcept { return lent_ && !enqueued(); }
  std::string where() const;

 private:
  // Messages to the other ranks. offer: this rank's buffers, and whether they can be read in place; there: the piece is
  // in this rank's slot; half: this rank has folded its part; read: this rank has read everything.
  enum class News { offer, there, half, read };
  // What the call waits for. idle: its turn; caller: the caller's stream; device: this rank's stream; others: messages
  // of the other ranks; opening: older mappings must be closed before others can be opened; over: nothing.
  enum class Step { idle, caller, device, others, opening, over };
  // The contents of an offer, from one rank to another.
  struct Offer {
    Reference in, out;
    std::uint64_t at = 0;       // where the receiver reads: offset in bytes from `in`
    std::uint64_t largest = 0;  // the most bytes that any one rank reads from this one
    std::uint64_t direct = 0;   // 1: may be read in place
  };

  // The addresses of a piece, by rank.
  struct Piece {
    std::size_t slot = 0;
    std::size_t at = 0, most = SIZE_MAX;  // offset and greatest size in every block, in bytes
    std::vector<const std::byte*> sources;
    std::vector<std::byte*> results;  // in place: each rank's `out`; otherwise its slot
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
  std::vector<std::shared_ptr<const Mapping>> mapped_;  // kept open while the call may use them
  bool direct_ = false, lent_ = false;
  Step step_ = Step::idle;
  News news_ = News::offer;
  Owned<Event> done_;  // on this rank's stream: the next message is sent when it has completed
  std::uint32_t lane_ = 0;
  std::optional<PeerMessages> messages_;
  Piece piece_;
  std::size_t area_ = 0, slices_ = 1, slice_ = 0;
};

}  // namespace tutti::cudaipc
