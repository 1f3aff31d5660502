// Encoding and decoding of the TCP store's messages.
#include "collectives/bootstrap/store_wire.hpp"

#include <cstring>

#include "collectives/bootstrap/store_rules.hpp"
#include "transports/core/random.hpp"

namespace tutti::store_wire {
namespace {

constexpr std::size_t longest_key_on_wire = store_rules::longest_key;
constexpr std::size_t longest_value_on_wire = store_rules::longest_value;

void put(std::string& out, std::uint64_t number, int bytes) {
  for (int i = 0; i < bytes; ++i) out += static_cast<char>(number >> (8 * i));
}

std::uint64_t number_at(std::string_view in, std::size_t at, int bytes) {
  std::uint64_t number = 0;
  for (int i = 0; i < bytes; ++i)
    number |= std::uint64_t{static_cast<unsigned char>(in[at + static_cast<std::size_t>(i)])} << (8 * i);
  return number;
}

Digest proof(std::string_view who, std::string_view secret, const Nonce& server, const Nonce& client) {
  std::string message(who);
  message.append(reinterpret_cast<const char*>(server.data()), server.size());
  message.append(reinterpret_cast<const char*>(client.data()), client.size());
  return hmac_sha256(std::as_bytes(std::span(secret)), std::as_bytes(std::span(message)));
}

/// Requests and answers have the same header: key bytes, value bytes, number, kind, seven zero bytes.
std::string frame(std::uint8_t kind, std::string_view key, std::string_view value, std::int64_t number) {
  std::string out;
  out.reserve(header_bytes + key.size() + value.size());
  put(out, key.size(), 4);
  put(out, value.size(), 4);
  put(out, static_cast<std::uint64_t>(number), 8);
  put(out, kind, 8);
  out += key;
  out += value;
  return out;
}

struct Frame {
  std::uint8_t kind = 0;
  std::string key;
  std::string value;
  std::int64_t number = 0;
};

Parsed take_frame(std::string_view& bytes, Frame& frame, std::uint64_t last_kind) {
  if (bytes.size() < header_bytes) return Parsed::more;
  const std::uint64_t key_bytes = number_at(bytes, 0, 4), value_bytes = number_at(bytes, 4, 4);
  const std::uint64_t kind = number_at(bytes, 16, 8);
  if (key_bytes > longest_key_on_wire || value_bytes > longest_value_on_wire || kind > last_kind)
    return Parsed::garbage;
  if (bytes.size() < header_bytes + key_bytes + value_bytes) return Parsed::more;
  frame.kind = static_cast<std::uint8_t>(kind);
  frame.number = static_cast<std::int64_t>(number_at(bytes, 8, 8));
  frame.key = bytes.substr(header_bytes, key_bytes);
  frame.value = bytes.substr(header_bytes + key_bytes, value_bytes);
  bytes.remove_prefix(header_bytes + key_bytes + value_bytes);
  return Parsed::complete;
}

}  // namespace

Nonce random_nonce() {
  Nonce nonce;
  fill_random(nonce.data(), nonce.size());
  return nonce;
}

Digest client_proof(std::string_view secret, const Nonce& server, const Nonce& client) {
  return proof("client", secret, server, client);
}
Digest server_proof(std::string_view secret, const Nonce& server, const Nonce& client) {
  return proof("server", secret, server, client);
}

std::string greeting(const Nonce& nonce) {
  std::string out(magic);
  put(out, version, 4);
  return out.append(reinterpret_cast<const char*>(nonce.data()), nonce.size());
}

bool parse_greeting(std::string_view bytes, std::uint32_t& speaks, Nonce& nonce) {
  if (bytes.size() < greeting_bytes || !bytes.starts_with(magic)) return false;
  speaks = static_cast<std::uint32_t>(number_at(bytes, magic.size(), 4));
  std::memcpy(nonce.data(), bytes.data() + magic.size() + 4, nonce.size());
  return true;
}

std::string encode(Op op, std::string_view key, std::string_view value, std::int64_t amount) {
  return frame(static_cast<std::uint8_t>(op), key, value, amount);
}

std::string encode(const Answer& answer) {
  return frame(static_cast<std::uint8_t>(answer.outcome), {}, answer.value, answer.number);
}

Parsed take(std::string_view& bytes, Request& request) {
  Frame frame;
  const Parsed parsed = take_frame(bytes, frame, static_cast<std::uint64_t>(Op::set_at_end));
  if (parsed != Parsed::complete) return parsed;
  if (frame.kind == 0) return Parsed::garbage;
  request = {static_cast<Op>(frame.kind), std::move(frame.key), std::move(frame.value), frame.number};
  return Parsed::complete;
}

Parsed take(std::string_view& bytes, Answer& answer) {
  Frame frame;
  const Parsed parsed = take_frame(bytes, frame, static_cast<std::uint64_t>(Outcome::instead));
  if (parsed != Parsed::complete) return parsed;
  if (!frame.key.empty()) return Parsed::garbage;
  answer = {static_cast<Outcome>(frame.kind), std::move(frame.value), frame.number};
  return Parsed::complete;
}

}  // namespace tutti::store_wire
