// What two ends of a pair tell one another, how their queue pairs are brought up, and which completion is whose.
#pragma once

#include <array>
#include <cstdint>

#include "transports/core/clock.hpp"
#include "transports/ibverbs/endpoint.hpp"
#include "transports/ibverbs/handles.hpp"

namespace tutti::ibverbs {

/// What one end of a pair tells the other, over the side connection.
struct Hello {
  static constexpr std::uint32_t version_magic = 0x32627674;  // "tvb2"
  std::uint32_t magic = version_magic;
  std::uint32_t queue_pair = 0;
  std::uint32_t first_packet = 0;  ///< number of the first packet that its sender will send
  static constexpr std::size_t most_paths = 4;
  enum class State : std::uint32_t { here, ready, no_bulk, leaving };
  /// ready: its sender has the receiver's hello; no_bulk: no large messages past the slots any more; leaving: packets
  /// are answered no more.
  State state = State::here;
  std::uint32_t path = 0;                                                        ///< that no_bulk is about
  std::array<std::uint32_t, most_paths> bulk_queue_pair{}, bulk_first_packet{};  ///< the same of the bulks, by path
};

/// Which completion is whose: in ibv_wc::wr_id.
struct Ticket {
  enum class What : std::uint8_t { sent, received, put, filled };
  int peer = 0;
  What what = What::sent;
  std::uint8_t slot = 0;  ///< received into; of sent messages, how many; of a put, its place among them
  std::uint8_t path = 0;  ///< of large messages
  std::uint64_t id() const noexcept {
    return static_cast<std::uint64_t>(peer) << 24 | static_cast<std::uint64_t>(path) << 16 |
           static_cast<std::uint64_t>(what) << 8 | slot;
  }
  static Ticket of(std::uint64_t id) noexcept {
    return {static_cast<int>(id >> 24), static_cast<What>(id >> 8 & 0xff), static_cast<std::uint8_t>(id),
            static_cast<std::uint8_t>(id >> 16)};
  }
};

/// A number to begin with, that nobody guesses.
std::uint32_t random_packet() noexcept;

/// A new queue pair of `own`'s port, which may be given work to receive; `access`: what peers may do by address. An
/// errno, or 0.
int prepare(ibv_qp* pair, const Endpoint& own, int access) noexcept;

/// Both ends of a queue pair: the numbers of the first packets, and of the other's queue pair.
struct Ends {
  Endpoint own, its;
  std::uint32_t first_packet = 0, its_queue_pair = 0, its_first_packet = 0;
};

/// Connects it; a card that hears nothing gives up after about `silence`. An errno, or 0.
int bring_up(ibv_qp* pair, const Ends& ends, Seconds silence) noexcept;

}  // namespace tutti::ibverbs
