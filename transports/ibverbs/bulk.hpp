// Bulk: large messages between this rank and one peer, written by RDMA (put) into a buffer that the receiver offered.
//
// Bulk has its own queue pair. Memory of Communicator::allocate is registered once. Any other buffer is registered for
// a single message, so no registration outlives a buffer that the user frees or remaps, and a peer can write only to
// buffers offered to it at the moment. If a buffer is revoked during a transfer, both sides close this queue pair and
// nothing else. Messages in progress and later ones then go through the slots of the Pair.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "transports/ibverbs/adapter.hpp"
#include "transports/ibverbs/hello.hpp"
#include "transports/stream/transport.hpp"

namespace tutti::ibverbs {

inline constexpr std::size_t most_bulk = 8;  // most offers at the same time, and most puts
// smaller messages are faster through slots than through registration
inline constexpr std::size_t least_put = 64 << 10;
inline constexpr std::size_t longest_put = std::size_t{1} << 30;

class Bulk {
 public:
  using Ended = Placing::Ended;

  /// `path`: the number of this route between the two ranks. If the device has no queue pair left, closed() is true.
  Bulk(Adapter& adapter, int peer, const Endpoint& own, const Endpoint& its, std::uint8_t path = 0);

  void introduce(Hello& mine) const noexcept;
  void connect(const Hello& its, Seconds silence) noexcept;

  bool offer(std::uint64_t recv, Bytes into, RemotePlace& place) noexcept;
  bool put(std::uint64_t send, ConstBytes data, const RemotePlace& place) noexcept;
  /// Revokes the offer of the receive `recv`. Returns false if the peer may still write to the buffer until close() has
  /// returned. Returns true also if there is no such offer.
  bool revoke_offer(std::uint64_t recv) noexcept;
  bool putting(std::uint64_t send) const noexcept;  ///< a put is in progress, and only close() stops it

  /// Handle a completion: done(): a put has completed; filled(): the peer has filled an offer; undone(): the device has
  /// flushed a put or a receive.
  void done(std::size_t put, std::vector<Ended>& ended) noexcept;
  void filled(std::uint32_t offer, std::vector<Ended>& ended) noexcept;
  void undone(const Ticket& ticket, std::vector<Ended>& ended) noexcept;

  /// Makes the device flush all requests; idle() is true when it has. Call it before close(): otherwise the completions
  /// of finished puts would be lost with the queue pair, although the peer knows that these puts are done. Returns
  /// false if the device is gone and flushes nothing.
  bool stop() noexcept;
  bool idle() const noexcept;
  /// Closes the queue pair; puts in progress fail. After it has returned, the device accesses none of their memory.
  void close(std::vector<Ended>& ended) noexcept;
  bool open() const noexcept { return open_; }
  bool closed() const noexcept { return pair_ == nullptr; }  ///< for good, also if it was never open

 private:
  struct Offer {
    std::uint64_t recv = 0;
    std::uint32_t number = 0;  // unique id of the offer, which the peer's put contains
    Region region;             // null: memory that stays registered
  };
  struct Put {
    std::uint64_t send = 0;
    Region region;
  };
  struct Told;
  bool await(std::size_t offers) noexcept;

  Adapter& adapter_;
  const int peer_;
  const std::uint8_t path_;
  const Endpoint own_, its_;
  std::array<Offer, most_bulk> offers_;
  std::array<Put, most_bulk> puts_;
  QueuePair pair_;  // declared after the regions, so that it is destroyed first
  std::uint32_t first_packet_;
  std::size_t longest_ = 0;
  std::size_t awaited_ = 0;  // posted receives
  std::size_t offered_ = 0;
  std::uint32_t numbered_ = 0;  // offers made so far
  bool open_ = false, stopped_ = false;
};

}  // namespace tutti::ibverbs
