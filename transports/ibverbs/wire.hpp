// VerbsWire: byte streams between ranks, as messages on reliable RDMA connections.
#pragma once

#include <deque>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "transports/core/descriptor.hpp"
#include "transports/ibverbs/bulk.hpp"
#include "transports/ibverbs/pair.hpp"
#include "transports/stream/transport.hpp"

namespace tutti::ibverbs {

/// The side connection of a pair, for hellos and failures: another provider's transport over sockets. It notices the
/// death of a rank at once, while an RDMA device notices it only after all retries.
class Side final : public TransportListener {
 public:
  explicit Side(TransportListener& owner) : owner_(owner) {}
  void failed(const Cause& why) override { owner_.failed(why); }
  void control(int from, ConstBytes message) override;
  std::vector<std::pair<int, Hello>> take();

  std::unique_ptr<Transport> transport;  ///< set once

 private:
  TransportListener& owner_;
  std::mutex mutex_;
  std::vector<std::pair<int, Hello>> hellos_;
};

/// The arguments of VerbsWire.
struct Setup {
  int rank = 0, size = 1;
  Card own;
  std::vector<Card> peers;
  Seconds silence{7.5};  ///< time without an acknowledgement until a queue pair fails
};

/// A pair of ranks connects when one of them first writes to the other or waits for it.
class VerbsWire final : public Wire, private Placing {
 public:
  /// Throws Error{resource}.
  VerbsWire(Setup setup, std::unique_ptr<Side> side, TransportListener& listener);
  ~VerbsWire() override;

  StreamLimits limits() const noexcept override;
  std::size_t write(int to, std::span<const ConstBytes> pieces) override;
  ConstBytes peek(int from) override;
  void consume(int from, std::size_t bytes) override;
  bool open(int to) const noexcept override;
  void poll(std::vector<int>& ranks) override;
  Transport::Fds fds() const noexcept override { return {epoll_.fd(), side_->transport->fds().watch}; }
  bool arm(bool on) override;
  void watch() override { side_->transport->watch(); }
  void expect(int from) override;
  void drop(int peer) noexcept override;
  std::string describe(int to) const override;
  std::shared_ptr<void> adopt(std::shared_ptr<void> memory, std::size_t bytes) override;
  Placing* placing() noexcept override { return this; }
  void ring(int) noexcept override {}  // received messages wake a sleeping rank
  bool post(const Cause& why) noexcept override;
  void close(Deadline until) noexcept override;

 private:
  struct Path {
    Adapter* adapter = nullptr;
    Endpoint own, its;
    std::unique_ptr<Bulk> bulk;  ///< set if the link has a pair
  };
  struct Link {
    std::string host;
    std::vector<Path> paths;  ///< the slots use the first one; large messages use all, round-robin
    std::unique_ptr<Pair> pair;
    std::size_t next = 0;  ///< path of the next large message
    bool open = false;     ///< the peer is ready to receive
    bool gone = false;
    bool left = false;    ///< the peer acknowledges no more packets
    bool listed = false;  ///< it is in unread_
  };
  Link& link(int rank) noexcept { return links_[static_cast<std::size_t>(rank)]; }
  const Link& link(int rank) const noexcept { return links_[static_cast<std::size_t>(rank)]; }

  void route(const Card& peer);
  Adapter& adapter_of(const Endpoint& own);
  bool offer(int from, std::uint64_t recv, Bytes into, RemotePlace& place) override;
  bool put(int to, std::uint64_t send, ConstBytes data, const RemotePlace& place) override;
  void revoke_offer(int from, std::uint64_t recv) noexcept override;
  void revoke_put(int to, std::uint64_t send) noexcept override;
  void take_ended(std::vector<Ended>& ended) override;
  bool ended_bulk(Link& at, const Ticket& ticket, const ibv_wc& done);
  void stop_bulk(int peer, std::size_t path);
  void close_bulk(int peer, std::size_t path);
  void lose_port(const Adapter& adapter, int port);
  void lose_device(Adapter& adapter, const std::string& what);

  void call(int peer);
  bool make_pair(int peer);
  void greet(int peer, Hello::State state = Hello::State::here, std::size_t path = 0);
  void greeted(int from, const Hello& hello);
  bool drive_side();
  bool rung();
  bool gather();
  bool complete();
  void completed(const ibv_wc& done);
  void events(Adapter& adapter);
  void lose(int peer, Code code, const std::string& what);
  void watch_fd(int fd);

  const Setup setup_;
  std::unique_ptr<Side> side_;
  TransportListener& listener_;
  Descriptor epoll_;
  std::vector<std::unique_ptr<Adapter>> adapters_;
  std::vector<Link> links_;   // by world rank
  std::deque<ibv_wc> done_;   // completions not handled yet
  std::vector<Ended> ended_;  // large messages ended but not reported
  std::vector<int> unread_;   // peers whose slots contain data
  int connecting_ = 0;        // links with a pair that is not open
  int unseen_ = 0;            // polls since the side connections were polled
  int idle_ = 0;              // polls since the last completion
  bool woken_ = false;        // the rank may have slept since the last poll
  bool software_ = false;     // one of the adapters is software
};

/// The routes from rank `rank`, which has the card `own`, to the rank with the card `peer`. Route::first is an index
/// into own.endpoints, Route::second one into peer.endpoints. Both ranks get the same routes.
std::vector<Route> routes_between(int rank, const Card& own, const Card& peer);

}  // namespace tutti::ibverbs
