// The handshake of a connection; the header describes the protocol.
#include "transports/tcp/handshake.hpp"

#include <algorithm>
#include <bit>
#include <cstring>
#include <vector>

#include "transports/core/random.hpp"

namespace tutti::tcp {
namespace {

constexpr std::string_view magic = "tutti-tc";
static_assert(magic.size() == magic_bytes);

template <class T>
void put(HelloBytes& bytes, std::size_t& at, T value) noexcept {
  for (std::size_t i = 0; i < sizeof value; ++i) bytes[at++] = static_cast<std::byte>(value >> 8 * i);
}

template <class T>
void take(const HelloBytes& bytes, std::size_t& at, T& value) noexcept {
  value = 0;
  for (std::size_t i = 0; i < sizeof value; ++i) value |= static_cast<T>(std::to_integer<T>(bytes[at++]) << 8 * i);
}

}  // namespace

HelloBytes encode(const Hello& hello) noexcept {
  HelloBytes bytes{};
  std::memcpy(bytes.data(), magic.data(), magic_bytes);
  std::size_t at = magic_bytes;
  put(bytes, at, hello.version);
  put(bytes, at, static_cast<std::uint32_t>(hello.verdict));
  put(bytes, at, hello.from);
  put(bytes, at, hello.to);
  put(bytes, at, hello.size);
  put(bytes, at, hello.connection);
  put(bytes, at, hello.job);
  put(bytes, at, hello.instance);
  std::ranges::copy(hello.nonce, bytes.begin() + static_cast<std::ptrdiff_t>(at));
  static_assert(magic_bytes + 6 * 4 + 2 * 8 + sizeof hello.nonce == hello_bytes);
  return bytes;
}

bool has_magic(ConstBytes first) noexcept {
  return first.size() >= magic_bytes && std::memcmp(first.data(), magic.data(), magic_bytes) == 0;
}

std::optional<Hello> decode(const HelloBytes& bytes) noexcept {
  if (!has_magic(bytes)) return std::nullopt;
  Hello hello;
  std::size_t at = magic_bytes;
  std::uint32_t verdict = 0;
  take(bytes, at, hello.version);
  take(bytes, at, verdict);
  take(bytes, at, hello.from);
  take(bytes, at, hello.to);
  take(bytes, at, hello.size);
  take(bytes, at, hello.connection);
  take(bytes, at, hello.job);
  take(bytes, at, hello.instance);
  hello.verdict = static_cast<Verdict>(verdict);
  std::copy_n(bytes.begin() + static_cast<std::ptrdiff_t>(at), hello.nonce.size(), hello.nonce.begin());
  return hello;
}

Hello Membership::hello(int stream, std::uint64_t instance_called) const {
  Hello hello;
  hello.from = static_cast<std::uint32_t>(rank);
  hello.to = static_cast<std::uint32_t>(peer_of(stream));
  hello.size = static_cast<std::uint32_t>(size);
  hello.connection = static_cast<std::uint32_t>(connection_of(stream));
  hello.job = job;
  hello.instance = instance_called;
  fill_random(hello.nonce.data(), hello.nonce.size());
  return hello;
}

Verdict Membership::judge(const Hello& caller) const noexcept {
  if (caller.version != wire_version) return Verdict::wrong_version;
  if (caller.job != job) return Verdict::wrong_job;
  if (caller.size != static_cast<std::uint32_t>(size)) return Verdict::wrong_size;
  if (caller.to != static_cast<std::uint32_t>(rank) || caller.instance != instance) return Verdict::wrong_target;
  if (caller.from >= caller.size || caller.from == caller.to) return Verdict::wrong_target;
  if (caller.connection >= most_connections) return Verdict::surplus;
  return Verdict::welcome;
}

Digest Membership::proof(Side whose, const HelloBytes& connector, const HelloBytes& acceptor) const {
  const std::string_view role = whose == Side::connector ? "tutti connector" : "tutti acceptor";
  std::vector<std::byte> message;
  const ConstBytes role_bytes = std::as_bytes(std::span(role));
  message.insert(message.end(), role_bytes.begin(), role_bytes.end());
  message.insert(message.end(), connector.begin(), connector.end());
  message.insert(message.end(), acceptor.begin(), acceptor.end());
  return hmac_sha256(std::as_bytes(std::span(secret)), message);
}

std::uint64_t job_hash(std::string_view job) {
  const Digest digest = sha256(std::as_bytes(std::span(job)));
  std::uint64_t hash = 0;
  for (std::size_t i = 0; i < 8; ++i) hash = hash << 8 | std::to_integer<std::uint64_t>(digest[i]);
  return hash;
}

std::uint64_t random_number() {
  std::uint64_t number = 0;
  fill_random(&number, sizeof number);
  return number;
}

std::string reason(Verdict verdict, const Hello& other) {
  switch (verdict) {
    case Verdict::welcome: return "is welcome";
    case Verdict::wrong_version:
      return "speaks wire protocol " + std::to_string(other.version) + ", this rank " + std::to_string(wire_version) +
             "; install the same tutti everywhere";
    case Verdict::wrong_job: return "belongs to another job";
    case Verdict::wrong_size: return "believes the job has " + std::to_string(other.size) + " ranks";
    case Verdict::wrong_target: return "looks for another rank or an earlier run";
    case Verdict::surplus: return "is connected already";
  }
  return "answers what this version does not know";
}

}  // namespace tutti::tcp
