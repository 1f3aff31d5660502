// The messages of the meeting over SOCK_SEQPACKET, which preserves their boundaries; see handshake.hpp.
#pragma once

#include <sys/socket.h>
#include <sys/un.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

#include "transports/core/sha256.hpp"
#include "transports/shm/handshake.hpp"

namespace tutti::shm {

/// An abstract unix address, which disappears with its socket.
struct UnixAddress {
  explicit UnixAddress(std::string_view name) noexcept {
    const std::size_t size = std::min(name.size(), sizeof(address.sun_path) - 1);
    std::memcpy(address.sun_path + 1, name.data(), size);  // a leading zero byte makes the name abstract
    length = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + size);
  }
  const sockaddr* get() const noexcept { return reinterpret_cast<const sockaddr*>(&address); }

  sockaddr_un address{AF_UNIX, {}};
  socklen_t length = 0;
};

enum class MessageType : std::uint16_t { hello = 1, challenge, proof, welcome, roster };

/// The format of all messages; fields that a type does not use keep their defaults. A roster is followed by its cards.
struct Message {
  std::uint32_t magic = 0x75747475;
  std::uint16_t version = 4;
  MessageType type = MessageType::hello;
  std::int32_t from = -1, to = -1;
  Card card;
  std::array<std::uint8_t, 8> carries{};  // which descriptors are attached, in the order of Carried
  std::array<std::uint8_t, 16> nonce{};
  Digest proof{};
  std::uint32_t cards = 0, left = 0;  // of a roster: number of cards in this message, and in later messages
};
static_assert(std::is_trivially_copyable_v<Message> && std::is_trivially_copyable_v<Card>);

/// Descriptors that a message carries: doorbell, death and segment; -1 if there is none.
using Carried = std::array<int, 3>;
inline constexpr Carried nothing_carried = {-1, -1, -1};

/// Most cards in one message of a roster. A card has two descriptors; the kernel accepts at most 253 per message.
inline constexpr std::size_t cards_at_once = 120;

/// Blocks, for at most 10 s, while too many descriptors are in flight or the socket is full. Returns false with errno
/// set if the message was not sent.
bool send_message(int socket, Message message, const Carried& carried = nothing_carried);
bool send_cards(int socket, Message message, std::span<const Card> cards, std::span<const int> descriptors);

struct Received {
  enum class Kind { nothing_yet, message, ended, unheard, garbage, truncated } kind = Kind::nothing_yet;
  Message message;
  std::vector<Card> cards;
  std::vector<Descriptor> descriptors;
};

/// Does not block. The kernel drops descriptors beyond `most_descriptors`. Kind `unheard`: the peer closed the
/// connection before it had read all that was sent. Kind `truncated`: descriptors were dropped, or this process may not
/// have so many.
Received receive_message(int socket, std::size_t most_descriptors = 2 * cards_at_once);

}  // namespace tutti::shm
