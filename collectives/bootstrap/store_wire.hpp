// The protocol between TcpStoreServer and its clients; private to both.
//
// The server sends {magic, version, nonce}; the client answers with {magic, version, its own nonce, proof}, and the
// server with one byte (a Verdict) and its own proof. A proof is HMAC-SHA-256, with the secret as key, over the
// sender's role and both nonces, which prevents replays. Then the client sends requests, which the server answers in
// order. It may delay an answer while a later request of the connection waits for its key. Numbers are little-endian.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>

#include "transports/core/sha256.hpp"

namespace tutti::store_wire {

inline constexpr std::string_view magic = "tutti store\r\n\x1a";  // not valid in a text protocol
inline constexpr std::uint32_t version = 3;

using Nonce = std::array<std::byte, 32>;

/// Random bytes from the kernel. Throws Error{resource}.
Nonce random_nonce();

enum class Verdict : std::uint8_t { welcome, wrong_secret, wrong_version };

inline constexpr std::size_t greeting_bytes = magic.size() + 4 + sizeof(Nonce);
inline constexpr std::size_t answer_bytes = greeting_bytes + sizeof(Digest);
inline constexpr std::size_t verdict_bytes = 1 + sizeof(Digest);

Digest client_proof(std::string_view secret, const Nonce& server, const Nonce& client);
Digest server_proof(std::string_view secret, const Nonce& server, const Nonce& client);

std::string greeting(const Nonce& nonce);
/// Returns false if the magic does not match.
bool parse_greeting(std::string_view bytes, std::uint32_t& speaks, Nonce& nonce);

/// wait: the value is the name of a second key, which also ends the wait. set_at_end: the server sets the key when the
/// connection that requested this last ends.
enum class Op : std::uint8_t { set = 1, wait, find, add, set_once, erase, set_at_end };
/// refused: the value is the error text. instead: the wait ended by its second key, or by the second key of a wait that
/// was requested after it; the value is that key's value.
enum class Outcome : std::uint8_t { ok, absent, refused, instead };

struct Request {
  Op op = Op::find;
  std::string key;
  std::string value;
  std::int64_t amount = 0;
};
struct Answer {
  Outcome outcome = Outcome::ok;
  std::string value;
  std::int64_t number = 0;
};

inline constexpr std::size_t header_bytes = 24;
std::string encode(Op op, std::string_view key, std::string_view value, std::int64_t amount);
std::string encode(const Answer& answer);

enum class Parsed { complete, more, garbage };
/// Parses one request, or one answer, and removes it from the front of `bytes`. Lengths above the limits of
/// store_rules are invalid.
Parsed take(std::string_view& bytes, Request& request);
Parsed take(std::string_view& bytes, Answer& answer);

}  // namespace tutti::store_wire
