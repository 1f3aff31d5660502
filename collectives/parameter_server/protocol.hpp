// The wire protocol between a worker and a server of a parameter server.
//
// A request is a header with tag `requests`; its payload, if any, is a second message with tag `payloads`. Payloads
// arrive in the order of their headers. Each reply has tags of its own. Small values are in the same message as the
// reply's header. Large values are a separate message, which is received directly into the worker's buffer.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>
#include <type_traits>

#include "transports/core/hash.hpp"

namespace tutti::protocol {

enum class Verb : std::uint32_t {
  join,   ///< server 0 replies with the settings
  leave,  ///< closes all buffers for this worker
  bye,    ///< the worker's last request; no reply
  alive,  ///< a heartbeat; no reply
  open,
  free,
  cut,       ///< begins a dump: the server stops processing requests and replies with each worker's clock (`sent`)
  cut_at,    ///< the server processes requests up to the given numbers, and replies how many it has processed
  cut_take,  ///< the server copies its state, ends the dump, and replies with the copy's size
  fetch,     ///< the reply has the copy as values
  uncut,     ///< cancels the dump
  load,      ///< replaces the server's state by its part of a dump
  push,
  pull,
  push_pull
};

/// Value of Request::epoch for a version that the caller gave: stands for the server's present epoch.
inline constexpr std::uint64_t present_epoch = ~std::uint64_t{0};

inline constexpr int requests = 0, payloads = 1;
/// Tags of the reply to one request: for the header, for values sent separately, and for a text.
inline constexpr int first_reply = 16, tags_of_a_reply = 4;
inline constexpr std::uint64_t replies_at_once = 1u << 24;
constexpr int reply_tag(std::uint64_t sequence) noexcept {
  return first_reply + tags_of_a_reply * static_cast<int>(sequence % replies_at_once);
}
constexpr int values_tag(std::uint64_t sequence) noexcept { return reply_tag(sequence) + 1; }
constexpr int text_tag(std::uint64_t sequence) noexcept { return reply_tag(sequence) + 2; }

/// Values of at most this many bytes are sent in the same message as the reply's header.
inline constexpr std::size_t small_values = 16 << 10;

struct Request {
  Verb verb = Verb::push;
  std::uint32_t dtype = 0;     ///< of the payload
  std::uint64_t sequence = 0;  ///< number of the worker's request, from 1
  std::uint64_t instance = 0;  ///< id_of() the buffer's name
  std::uint64_t rule = 0;      ///< id_of() the rule's name
  std::uint64_t offset = 0;    ///< in the whole buffer, in elements
  std::uint64_t count = 0;     ///< elements, all in this server's shard
  std::uint64_t bytes = 0;     ///< of the payload
  std::uint64_t values = 0;    ///< bytes of values that the worker expects in the reply
  std::uint64_t epoch = 0;     ///< of `version`
  std::uint64_t version = 0;   ///< this and the rest: see PushMeta
  std::uint64_t tokens = 0;
  std::uint64_t steps = 0;
  double factor = 1;
  /// The number of messages of numbered requests that the worker has sent to all servers together, this request
  /// included. It is the worker's clock for dumps: one number, however many servers there are.
  std::uint64_t sent = 0;
};
static_assert(std::is_trivially_copyable_v<Request> && sizeof(Request) == 112);

struct Reply {
  std::uint32_t code = 0;  ///< a Code
  std::uint32_t text = 0;  ///< bytes of a text that follows: the error message, or the result
  std::uint64_t epoch = 0;
  std::uint64_t version = 0;
};
static_assert(std::is_trivially_copyable_v<Reply> && sizeof(Reply) == 24);

constexpr std::uint64_t id_of(std::string_view name) noexcept { return fnv1a(name); }

}  // namespace tutti::protocol
