// Bulk: large messages between this rank and one peer, written directly into the receiver's buffer by RDMA.
//
// Bulk has its own queue pair. Memory of Communicator::allocate is registered once. Any other buffer is registered
// for a single message, so no registration outlives a buffer that the user frees or remaps, and a peer can write only
// to buffers offered to it at the moment. Revoking a buffer during a transfer closes this queue pair on both sides
// and nothing else: messages in progress and later ones go through the slots.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "transports/ibverbs/adapter.hpp"
#include "transports/ibverbs/hello.hpp"
#include "transports/stream/transport.hpp"

namespace tutti::ibverbs {

inline constexpr std::size_t most_bulk = 8;  // offers, and puts, at the same time
// smaller messages are faster through slots than through registration
inline constexpr std::size_t least_put = 64 << 10;
inline constexpr std::size_t longest_put = std::size_t{1} << 30;

class Bulk {
 public:
  using Ended = Placing::Ended;

  /// Uses the pair's path number `path`. If the device has no queue pair left, it is closed from the start.
  Bulk(Adapter& adapter, int peer, const Endpoint& own, const Endpoint& its, std::uint8_t path = 0);

  void introduce(Hello& mine) const noexcept;
  void connect(const Hello& its, Seconds silence) noexcept;

  bool offer(std::uint64_t recv, Bytes into, RemotePlace& place) noexcept;
  bool put(std::uint64_t send, ConstBytes data, const RemotePlace& place) noexcept;
  /// Returns false if the peer may still write to the buffer, until close(). Returns true also if there is no such
  /// offer.
  bool revoke_offer(std::uint64_t recv) noexcept;
  bool putting(std::uint64_t send) const noexcept;  ///< only close() stops it

  /// A put has completed, the peer has filled an offer, or the device has flushed one of these.
  void done(std::size_t put, std::vector<Ended>& ended) noexcept;
  void filled(std::uint32_t offer, std::vector<Ended>& ended) noexcept;
  void undone(const Ticket& ticket, std::vector<Ended>& ended) noexcept;

  /// Called before close(): makes the device flush all requests, until idle(). The flushed completions include puts
  /// that had finished, which would be lost with the queue pair although the peer knows they are done. Returns false
  /// if the device is gone and flushes nothing.
  bool stop() noexcept;
  bool idle() const noexcept;
  /// Ends large messages; puts in progress have failed. The device does not access their memory after it returns.
  void close(std::vector<Ended>& ended) noexcept;
  bool open() const noexcept { return open_; }
  bool closed() const noexcept { return pair_ == nullptr; }  ///< for good; it may not have been open yet

 private:
  struct Offer {
    std::uint64_t recv = 0;
    std::uint32_t number = 0;  // id of the offer, unique; the peer returns it when the data has arrived
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
