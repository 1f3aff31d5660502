// What travels between a worker and a server of a parameter server.
//
// A request is one header by the tag `requests`; where it has bytes, these follow by the tag `payloads`, in the order
// of the headers. A reply has tags of its own: one message with the values behind its header where these are small,
// else the values in a message of theirs, which goes straight to where the worker wants them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>
#include <type_traits>

#include "transports/core/hash.hpp"

namespace tutti::frames {

enum class Verb : std::uint32_t {
  join,   ///< answers with the settings
  leave,  ///< does not count until the next join
  bye,    ///< no more comes; no reply
  alive,  ///< a sign of life, of a worker that may have nothing else to say; no reply
  open,
  free,
  cut,     ///< begins a dump: nothing more is taken; answers with what has been taken of whom
  cut_at,  ///< goes on up to these counts, and keeps the state; answers with the size of that
  fetch,   ///< what was kept, as values
  uncut,   ///< gives the dump up
  load,    ///< puts the state of a dump in the place of all there is
  push,
  pull,
  push_pull
};

inline constexpr int requests = 0, payloads = 1;
/// Tags of the replies to one request: of the header, of the values where they go by themselves, and of a text.
inline constexpr int first_reply = 16, tags_of_a_reply = 4;
inline constexpr std::uint64_t replies_at_once = 1u << 24;
constexpr int reply_tag(std::uint64_t sequence) noexcept {
  return first_reply + tags_of_a_reply * static_cast<int>(sequence % replies_at_once);
}
constexpr int values_tag(std::uint64_t sequence) noexcept { return reply_tag(sequence) + 1; }
constexpr int text_tag(std::uint64_t sequence) noexcept { return reply_tag(sequence) + 2; }

/// Values of at most so many bytes go with the header of their reply.
inline constexpr std::size_t small_values = 16 << 10;

struct Request {
  Verb verb = Verb::push;
  std::uint32_t dtype = 0;     ///< of the payload
  std::uint64_t sequence = 0;  ///< the worker's n-th request
  std::uint64_t instance = 0;  ///< id_of() its name
  std::uint64_t rule = 0;      ///< id_of() its name
  std::uint64_t offset = 0;    ///< in the whole buffer
  std::uint64_t count = 0;     ///< elements, all in this server's shard
  std::uint64_t bytes = 0;     ///< that follow
  std::uint64_t values = 0;    ///< bytes of values that the reply is to have
  std::uint64_t epoch = 0;     ///< that `version` belongs to
  std::uint64_t version = 0;
  std::uint64_t tokens = 0;
  std::uint64_t steps = 0;
  double factor = 1;
};
static_assert(std::is_trivially_copyable_v<Request> && sizeof(Request) == 104);

struct Reply {
  std::uint32_t code = 0;  ///< a Code
  std::uint32_t text = 0;  ///< bytes of a text that follows: why not, or what was asked for
  std::uint64_t epoch = 0;
  std::uint64_t version = 0;
};
static_assert(std::is_trivially_copyable_v<Reply> && sizeof(Reply) == 24);

/// Behind its header each request has the counts of the requests that its worker has sent to each server so far, this
/// one included: std::uint64_t by server. From these follows which states of several servers belong together.
constexpr std::size_t head_bytes(std::size_t servers) noexcept { return sizeof(Request) + 8 * servers; }

constexpr std::uint64_t id_of(std::string_view name) noexcept { return fnv1a(name); }

}  // namespace tutti::frames
