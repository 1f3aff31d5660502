// The handshake of every connection: identifies the two ranks, the job and the connection's number, and proves that
// both know the secret.
//
// C connects, A accepts:
//   C -> A  hello                 C's rank, the rank and the listener that it wants, the job, a nonce
//   A -> C  hello                 the same of A, with its verdict on C's hello; only `welcome` goes on
//   A -> C  proof                 HMAC(secret, "acceptor" + both hellos)
//   C -> A  proof, decision       HMAC(secret, "connector" + both hellos)
//   A -> C  decision              A's decision, or its acknowledgement of C's
//
// Both ranks of a pair may connect at the same time, each by several addresses, so several attempts for the same
// connection may get this far. The lower rank of the pair decides: it writes `chosen` on one attempt at a time, the
// first with a valid proof, and refuses the others. Data are written only after the acceptor's `chosen` was written or
// read. A connector that has sent its proof never gives up the attempt (an acceptor may, because it has the last word).
// So no connection is open at one end only, and no byte is lost on an attempt that was not chosen.
//
// The magic, the version and the verdict have the same places in all versions of the protocol.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "transports/core/sha256.hpp"

namespace tutti::tcp {

inline constexpr std::uint32_t wire_version = 2;
inline constexpr std::size_t magic_bytes = 8;
inline constexpr std::size_t hello_bytes = 72;
inline constexpr std::byte chosen{0xC5};
inline constexpr std::byte undecided{0x5C};
inline constexpr std::uint32_t most_connections = 8;  ///< maximum between two ranks

enum class Verdict : std::uint32_t { welcome, wrong_version, wrong_job, wrong_size, wrong_target, surplus };

struct Hello {
  std::uint32_t version = wire_version;
  Verdict verdict = Verdict::welcome;
  std::uint32_t from = 0, to = 0, size = 0;
  std::uint32_t connection = 0;  ///< number among those of the two ranks: 0 is the first
  std::uint64_t job = 0;         ///< hash of the job's name
  std::uint64_t instance = 0;    ///< of the listener that is being called
  std::array<std::byte, 24> nonce{};
};

using HelloBytes = std::array<std::byte, hello_bytes>;

HelloBytes encode(const Hello& hello) noexcept;

/// Returns nullopt if the magic is wrong.
std::optional<Hello> decode(const HelloBytes& bytes) noexcept;
bool has_magic(ConstBytes first) noexcept;

/// The identity of this rank towards its peers.
struct Membership {
  int rank = 0, size = 1;
  std::uint64_t job = 0;
  std::uint64_t instance = 0;
  std::string secret;

  /// Streams are numbered as in Wire: the peer's rank + the connection's number * size.
  int peer_of(int stream) const noexcept { return stream % size; }
  int connection_of(int stream) const noexcept { return stream / size; }

  Hello hello(int stream, std::uint64_t instance_called) const;  ///< with a fresh nonce
  /// `welcome` if a caller's hello is meant for this rank; does not check the secret.
  Verdict judge(const Hello& caller) const noexcept;

  enum class Side { connector, acceptor };
  Digest proof(Side whose, const HelloBytes& connector, const HelloBytes& acceptor) const;
};

std::uint64_t job_hash(std::string_view job);
std::uint64_t random_number();

/// The reason for a refusal, as a clause: "speaks wire protocol 1, this rank 2".
std::string reason(Verdict verdict, const Hello& other);

}  // namespace tutti::tcp
