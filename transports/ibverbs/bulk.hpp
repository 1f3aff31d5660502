// Bulk: large messages between this rank and one peer, put straight into the receiver's buffer by RDMA.
//
// It has a queue pair of its own. Memory of Communicator::allocate is registered once; any other buffer for one
// message, and no longer: what the user frees or maps anew is never in a table of ours, and a peer can write only to
// what is offered to it now. Whoever takes a buffer back in the middle ends this queue pair, on both sides, and nothing
// else: all that was under way, or comes later, goes through the slots.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "transports/ibverbs/adapter.hpp"
#include "transports/ibverbs/hello.hpp"
#include "transports/stream_transport.hpp"

namespace tutti::ibverbs {

inline constexpr std::size_t most_bulk = 8;         // offers, and puts, at a time
inline constexpr std::size_t least_put = 64 << 10;  // smaller messages are copied through slots sooner than registered
inline constexpr std::size_t longest_put = std::size_t{1} << 30;

class Bulk {
 public:
  using Ended = Placing::Ended;

  /// The one by the pair's `path`. Where the device gives no queue pair, it is closed from the beginning.
  Bulk(Adapter& adapter, int peer, const Endpoint& own, const Endpoint& its, std::uint8_t path = 0);

  void introduce(Hello& mine) const noexcept;
  void connect(const Hello& its, Seconds silence) noexcept;

  bool offer(std::uint64_t recv, Bytes into, Place& place) noexcept;
  bool put(std::uint64_t send, ConstBytes data, const Place& place) noexcept;
  /// False: the peer may still write there, until close(). True also where it has no such offer.
  bool revoke_offer(std::uint64_t recv) noexcept;
  bool putting(std::uint64_t send) const noexcept;  ///< only close() takes it back

  /// A put of ours is over, or the peer has filled an offer, or the card gives back one of these undone.
  void done(std::size_t put, std::vector<Ended>& ended) noexcept;
  void filled(std::uint32_t offer, std::vector<Ended>& ended) noexcept;
  void undone(const Ticket& ticket, std::vector<Ended>& ended) noexcept;

  /// Before close(): the card gives back whatever it has, until idle(). What it had finished is among that, and would
  /// be lost with the queue pair; the peer knows it to be done.
  /// False: the card is gone, and gives back nothing.
  bool stop() noexcept;
  bool idle() const noexcept;
  /// No large messages any more; puts under way have failed. When it returns, the card reads and writes nothing.
  void close(std::vector<Ended>& ended) noexcept;
  bool open() const noexcept { return open_; }
  bool closed() const noexcept { return pair_ == nullptr; }  ///< for good; it may not have been open yet

 private:
  struct Offer {
    std::uint64_t recv = 0;
    std::uint32_t number = 0;  // told to the peer, and by it when all is there; of no other offer
    Region region;             // null: of memory that stays registered
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
  QueuePair pair_;  // after the regions: it goes first
  std::uint32_t first_packet_;
  std::size_t longest_ = 0;
  std::size_t awaited_ = 0;  // requests to receive that are posted
  std::size_t offered_ = 0;
  std::uint32_t numbered_ = 0;  // offers so far
  bool open_ = false, stopped_ = false;
};

}  // namespace tutti::ibverbs
