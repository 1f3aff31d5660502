// The provider "tcp": sockets between any ranks that share a network.
#include "tutti/provider/provider.hpp"

#include <poll.h>
#include <pthread.h>
#include <sys/socket.h>

#include <cerrno>
#include <csignal>
#include <cstring>
#include <exception>
#include <string>
#include <thread>

#include "transports/tcp/settings.hpp"
#include "transports/tcp/sockets.hpp"
#include "transports/tcp/wire.hpp"
#include "tutti/threads.hpp"

namespace tutti {
namespace {

Viability viable(const Settings&) {
  for (const int family : {AF_INET, AF_INET6}) {
    if (const Descriptor probe{::socket(family, SOCK_STREAM | SOCK_CLOEXEC, 0)}; probe) return {};
  }
  return {false, std::string("sockets are refused (") + std::strerror(errno) + ")"};
}

std::string domain(const Settings&) { return {}; }

/// Runs attend() on a thread while this rank waits at the store, so that strangers do not fill the listening queue.
class Attendant {
 public:
  explicit Attendant(tcp::Acceptor& acceptor) : acceptor_(acceptor) {
    sigset_t all, before;  // signals are left to the program's own threads
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    try {
      thread_ = start_thread("attends to callers", [this] { attend(); });
    } catch (const Error&) {
      // without the thread, callers wait
    }
    pthread_sigmask(SIG_SETMASK, &before, nullptr);
  }
  ~Attendant() {
    tcp::raise_event(end_.fd());
    if (thread_.joinable()) thread_.join();
  }
  Attendant(const Attendant&) = delete;
  Attendant& operator=(const Attendant&) = delete;

 private:
  void attend() {
    pollfd ready[] = {{acceptor_.fd(), POLLIN, 0}, {end_.fd(), POLLIN, 0}};
    try {
      while ((::poll(ready, 2, -1) >= 0 || errno == EINTR) && ready[1].revents == 0) acceptor_.attend();
    } catch (const std::exception&) {
      // the rank's own call of attend() will throw it too
    }
  }

  tcp::Acceptor& acceptor_;
  const Descriptor end_ = tcp::make_event();
  std::thread thread_;
};

/// Exchanges the endpoints with the peers. A connection is made when the first byte is written to a peer.
Connected connect(const Rendezvous& meeting) {
  tcp::Membership self;
  self.rank = meeting.rank;
  self.size = meeting.size;
  self.job = tcp::job_hash(meeting.settings->job);
  self.secret = meeting.settings->secret;
  tcp::AcceptorSettings acceptor_settings{meeting.settings->iface, meeting.settings->host_id,
                                          meeting.settings->of(tcp_congestion),
                                          static_cast<int>(meeting.settings->of(tcp_connections)), meeting.one_host};
  auto acceptor = std::make_unique<tcp::Acceptor>(std::move(self), std::move(acceptor_settings), *meeting.listener);
  tcp::Directory peers;
  {
    const Attendant attendant(*acceptor);
    peers = tcp::Directory(meeting.texts_of_peers("tcp addresses", acceptor->endpoint().text()));
  }
  peers.check();
  acceptor->meet(std::move(peers));
  auto wire = std::make_unique<tcp::TcpWire>(meeting.rank, meeting.size, std::move(acceptor), *meeting.listener);
  return {make_stream_transport("tcp", meeting.rank, meeting.size, std::move(wire), *meeting.listener), {}, {}};
}

}  // namespace

extern const Provider tcp_provider;
const Provider tcp_provider{"tcp", "sockets between ranks that share a network", viable, domain, connect};

}  // namespace tutti
