// Frames of the stream protocol between two StreamTransports.
//
// A frame is a header of 56 bytes in the machine's byte order (detected by the magic number), followed by payload for
// some types. Any frame may return `credit`: the number of bytes of eager payload and of message beginnings that the
// frame's sender has consumed. The peer may then send as many bytes again.
//
// clang-format off
//   type     payload        id                    bytes
//   eager    the message    0                     of the message, at most StreamLimits::eager
//   rts      its beginning  the sender's number   of the message; `part`: of the beginning in this frame
//   cts      a place or -   the sender's number   the receiver's number; `part`: of the place, or 0: send data frames
//   data     a part         the receiver's number of this part, at most StreamLimits::chunk; `call`: its offset
//   credit   -              0                     0; only returns credit
//   control  the message    0                     of the message, at most Transport::max_control
//   abort    a Cause        0                     of the Cause
//   goodbye  -              0                     0; ends the stream; `part`: number of streams with a goodbye
//   reject   a Cause        the sender's number   of the Cause: the message does not match the receiver's call
// clang-format on
// A place (RemotePlace) tells where the sender may write the message into the receiver's memory directly.
// A further stream (see Wire::streams_per_peer) carries data frames and goodbyes only. The data frames of a message may
// arrive in any order. Each begins at a multiple of `alignment`, so that no element is split at its beginning.
#pragma once

#include <cstring>
#include <type_traits>

#include "transports/stream/transport.hpp"

namespace tutti::stream {

enum class FrameType : std::uint8_t { eager = 1, rts, cts, data, credit, control, abort, goodbye, reject };

struct Frame {
  static constexpr std::uint32_t version_magic = 0x33747574;  // "tut3"
  static constexpr std::size_t alignment = 8;                 // of a data frame's offset: size of the widest element
  std::uint32_t magic = version_magic;
  FrameType type = FrameType::eager;
  std::uint8_t spare[3] = {};
  std::uint32_t sequence = 0;
  std::uint32_t lane = 0;
  std::uint64_t group = 0;
  std::uint64_t call = 0;
  std::uint64_t bytes = 0;
  std::uint64_t id = 0;
  std::uint32_t credit = 0;
  std::uint32_t part = 0;

  Frame() = default;
  Frame(FrameType what, const Tag& tag, std::uint64_t signature, std::uint64_t size, std::uint64_t number = 0)
      : type(what),
        sequence(tag.sequence),
        lane(tag.lane),
        group(tag.group),
        call(signature),
        bytes(size),
        id(number) {}

  Tag tag() const noexcept { return {group, sequence, lane}; }

  /// True if the frame may arrive on any stream; false if only on the first.
  bool anywhere() const noexcept { return type == FrameType::data || type == FrameType::goodbye; }

  std::size_t payload() const noexcept {
    switch (type) {
      case FrameType::rts:
      case FrameType::cts: return part;
      case FrameType::credit:
      case FrameType::goodbye: return 0;
      default: return static_cast<std::size_t>(bytes);
    }
  }

  /// The error in a received header; null if it is valid.
  const char* malformed(const StreamLimits& limits) const noexcept {
    if (magic != version_magic) return "bytes that are no frame";
    if (credit > limits.credit) return "more credit than there is";
    switch (type) {
      case FrameType::eager: return bytes > limits.eager ? "an eager message beyond the limit" : nullptr;
      case FrameType::data:
        if (bytes > limits.chunk) return "a data frame beyond the limit";
        return call % alignment != 0 ? "a data frame that begins within an element" : nullptr;
      case FrameType::control: return bytes > Transport::max_control ? "a control message beyond the limit" : nullptr;
      case FrameType::abort:
      case FrameType::reject: return bytes != sizeof(Cause) ? "a cause of another size" : nullptr;
      case FrameType::rts: return part > limits.start || part > bytes ? "a beginning beyond the limit" : nullptr;
      case FrameType::cts: return part != 0 && part != sizeof(RemotePlace) ? "a place of another size" : nullptr;
      case FrameType::credit:
      case FrameType::goodbye: return nullptr;
    }
    return "a frame of unknown type";
  }
};
static_assert(sizeof(Frame) == 56 && std::is_trivially_copyable_v<Frame> && std::is_trivially_copyable_v<Cause>);

}  // namespace tutti::stream
