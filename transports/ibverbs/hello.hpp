// The handshake of a pair, the state changes of its queue pairs, and the contents of ibv_wc::wr_id.
#pragma once

#include <array>
#include <cstdint>

#include "transports/ibverbs/endpoint.hpp"
#include "transports/ibverbs/handles.hpp"
#include "tutti/clock.hpp"

namespace tutti::ibverbs {

/// A message from one end of a pair to the other, over the side connection.
struct Hello {
  static constexpr std::uint32_t version_magic = 0x32627674;  // "tvb2"
  std::uint32_t magic = version_magic;
  std::uint32_t queue_pair = 0;
  std::uint32_t first_packet = 0;               ///< initial packet sequence number of the sender
  static constexpr std::size_t most_paths = 4;  // routes between two ranks, each between two ports
  enum class State : std::uint32_t { here, ready, no_bulk, leaving };
  /// here: the sender's queue pairs exist; ready: the sender has also received the peer's hello; no_bulk: no more large
  /// messages on `path`; leaving: the sender acknowledges no more packets.
  State state = State::here;
  std::uint32_t path = 0;  ///< for no_bulk
  /// The same for the queue pairs of large messages, by path; queue pair 0: none.
  std::array<std::uint32_t, most_paths> bulk_queue_pair{}, bulk_first_packet{};
};

/// Identifies a completion; stored in ibv_wc::wr_id.
struct Ticket {
  enum class What : std::uint8_t { sent, received, put, filled };
  int peer = 0;
  What what = What::sent;
  std::uint8_t slot = 0;  ///< received: the slot; sent: number of messages completed; put: its index
  std::uint8_t path = 0;  ///< for large messages
  std::uint64_t id() const noexcept {
    return static_cast<std::uint64_t>(peer) << 24 | static_cast<std::uint64_t>(path) << 16 |
           static_cast<std::uint64_t>(what) << 8 | slot;
  }
  static Ticket of(std::uint64_t id) noexcept {
    return {static_cast<int>(id >> 24), static_cast<What>(id >> 8 & 0xff), static_cast<std::uint8_t>(id),
            static_cast<std::uint8_t>(id >> 16)};
  }
};

/// A random initial packet sequence number.
std::uint32_t random_packet() noexcept;

/// Moves a new queue pair on `own`'s port to INIT, after which receives may be posted. `access`: the remote access
/// allowed. Returns 0 or an errno.
int prepare(ibv_qp* pair, const Endpoint& own, int access) noexcept;

/// The two ends of a queue pair: endpoints, initial packet sequence numbers, and the peer's queue pair number.
struct Ends {
  Endpoint own, its;
  std::uint32_t first_packet = 0, its_queue_pair = 0, its_first_packet = 0;
};

/// Connects the queue pair (RTR, RTS). The device gives up after about `silence` without an acknowledgement. Returns
/// 0 or an errno.
int bring_up(ibv_qp* pair, const Ends& ends, Seconds silence) noexcept;

}  // namespace tutti::ibverbs
