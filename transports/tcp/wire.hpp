// The tcp wire: one connection per peer, opened by the first write or after 200 ms of waiting for data, and further
// ones for large messages.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "transports/core/lazy_array.hpp"
#include "transports/stream/transport.hpp"
#include "transports/tcp/acceptor.hpp"

namespace tutti::tcp {

/// The data path over plain sockets. Active sockets are polled directly; an epoll watches the others, and all of them
/// while this rank sleeps. The acceptor handles connections that are not open yet.
class TcpWire final : public Wire {
 public:
  /// Precondition: acceptor->meet() was called.
  TcpWire(int rank, int size, std::unique_ptr<Acceptor> acceptor, TransportListener& listener);
  ~TcpWire() override;

  StreamLimits limits() const noexcept override;
  std::size_t streams_per_peer() const noexcept override;
  void widen(int to, std::size_t bytes) override;
  std::size_t write(int to, std::span<const ConstBytes> pieces) override;
  ConstBytes peek(int from) override;
  void consume(int from, std::size_t bytes) override;
  std::size_t read(int from, Bytes into) override;
  bool open(int to) const noexcept override;
  void poll(std::vector<int>& ranks) override;
  Transport::Fds fds() const noexcept override { return {epoll_.fd(), acceptor_->fd()}; }
  bool arm(bool on) override;
  void watch() override { acceptor_->attend(); }  // callers are answered while this rank computes
  void farewell(int from) override;
  void expect(int from) override;
  void drop(int peer) noexcept override;
  std::string describe(int to) const override;
  void ring(int) noexcept override {}  // arriving bytes make `sleep` readable
  bool post(const Cause&) noexcept override { return false; }
  void close(Deadline until) noexcept override;

 private:
  struct Link;

  Link& link(int stream);
  int peer_of(int stream) const noexcept { return stream % size_; }
  template <class Function>
  void each_of(int peer, const Function& function);
  bool first_explains(const Link& at) noexcept;
  void judge(int peer) noexcept;
  void add(Opened opened);
  void look();
  void note(Link& at, std::uint32_t events);
  void activate(Link& at);
  void await(Link& at) noexcept;
  void forget(Link& at) noexcept;
  bool stays_active(Link& at);
  void watch_link(Link& at) noexcept;
  std::size_t receive(Link& from, Bytes first, Bytes second);
  void fill(Link& from);
  void end(Link& at, int error);
  void shut(Link& at) noexcept;
  void judge_ends();
  void report_end(const Link& at);
  void open_expected();
  void cut_links() noexcept;
  bool drained(Link& at) noexcept;

  int rank_, size_;
  TransportListener& listener_;
  std::unique_ptr<Acceptor> acceptor_;
  Descriptor epoll_, timer_, patience_;
  LazyArray<Link> links_;      // by stream
  std::vector<int> active_;    // links that every poll() receives from
  int awaited_ = 0;            // number of links that are not active although data are expected
  int unseen_ = 0;             // polls since the last check of the epoll
  std::vector<int> expected_;  // links that are not open although a recv waits
  int ending_ = 0;             // number of links whose end has not been judged yet
  bool news_ = false;          // this poll() opened a link or found one writable
};

}  // namespace tutti::tcp
