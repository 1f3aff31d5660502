// IpcCall: one collective by ranks that read one another's device memory.
//
// First everybody offers: here is my input (a handle, an offset), or it cannot be shared. If all of it can, it is read
// where it is, in one piece; else it goes through the staging slots in pieces. Every piece is: what others may read is
// there (an event), they read, they have read (an event). Two messages a rank and piece, and none waits for a device:
// that is what the streams do among themselves. A large allreduce has a step more, as every rank folds a part, and
// then reads the others' parts.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "transports/backend.hpp"
#include "transports/cudaipc/room.hpp"
#include "transports/cudaipc/shape.hpp"

namespace tutti::cudaipc {

/// More than so many bytes are folded in parts, a part by each rank.
inline constexpr std::size_t one_shot_bytes = 256 << 10;

class IpcCall {
 public:
  /// `number` counts the communicator's calls here, and those up to `ended` have ended.
  struct Place {
    std::uint64_t number, ended;
  };
  IpcCall(Room& room, const Collective& call, const Launch& launch);

  /// Puts the offer on its way. Throws Error.
  void begin(const Place& place);
  /// Carries on where the others' messages allow it; true where something moved. Throws Error.
  bool advance();
  /// Everything is on the stream; the other ranks read nothing of this call once the stream has got there.
  bool enqueued() const noexcept { return step_ == Step::over; }
  std::string where() const;

 private:
  enum class Step { idle, offered, there, half, read, over };
  struct Offer;

  // Where the piece's bytes are, by rank.
  struct Piece {
    std::size_t slot = 0;
    std::size_t at = 0, most = SIZE_MAX;  // of every block, in bytes
    std::vector<const std::byte*> sources;
    std::vector<const std::byte*> results;  // of a two-phase allreduce: where others read
    std::byte* own_result = nullptr;        // of the same, and of what is not written yet
  };

  bool may_be_read_in_place() const;
  Offer offer_to(int peer) const;
  void offered();
  void plan_direct(const std::vector<Offer>& offers);
  void begin_slice();
  void stage();
  void say(Step next, std::uint32_t lane);
  void main_part();
  void second_half();
  void piece_read();

  std::size_t bytes_of(std::size_t block) const noexcept;
  bool in_parts() const noexcept;
  Fold fold() const noexcept;
  void fold_into(std::byte* into, std::size_t from, std::size_t bytes);
  void copy(std::byte* into, const std::byte* from, std::size_t bytes);
  std::byte* own_input() const noexcept;

  Room& room_;
  const Collective& call_;
  const Launch launch_;
  const Part part_;
  Place place_{};
  Reference in_, out_;
  bool direct_ = false;
  bool late_ = false;  // the result is in own_result, and goes to `out` when all have read
  Step step_ = Step::idle;
  std::uint32_t lane_ = 0;
  std::optional<Letters> letters_;
  Piece piece_;
  std::vector<std::size_t> shown_to_us_;  // by rank: bytes that it shows
  std::size_t area_ = 0, slices_ = 0, slice_ = 0;
};

}  // namespace tutti::cudaipc
