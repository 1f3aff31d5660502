// The provider "tcp": sockets between any ranks that share a network.
#include "tutti/provider/provider.hpp"

#include <sys/socket.h>

#include <cerrno>
#include <cstring>

#include "transports/tcp/settings.hpp"
#include "transports/tcp/wire.hpp"

namespace tutti {
namespace {

Viability viable(const Settings&) {
  for (const int family : {AF_INET, AF_INET6}) {
    if (const Descriptor probe{::socket(family, SOCK_STREAM | SOCK_CLOEXEC, 0)}; probe) return {};
  }
  return {false, std::string("sockets are refused (") + std::strerror(errno) + ")"};
}

std::string domain(const Settings&) { return {}; }

std::string key_of(int rank) { return "address/" + std::to_string(rank); }

/// Publishes this rank's endpoint and reads those of the peers; connections are made when the first byte is written to
/// a peer.
Connected connect(const Rendezvous& meeting) {
  tcp::Membership self;
  self.rank = meeting.rank;
  self.size = meeting.size;
  self.job = tcp::job_hash(meeting.settings->job);
  self.secret = meeting.settings->secret;
  tcp::AcceptorSettings acceptor_settings{meeting.settings->iface, meeting.settings->host_id,
                                          meeting.settings->of(tcp_congestion),
                                          static_cast<int>(meeting.settings->of(tcp_connections))};
  auto acceptor = std::make_unique<tcp::Acceptor>(std::move(self), std::move(acceptor_settings), *meeting.listener);
  std::vector<Awaited> keys;
  for (const int peer : meeting.peers) keys.push_back({key_of(peer), departure_key(peer)});
  std::vector<tcp::Endpoint> peers;
  for (const std::string& endpoint :
       meeting.store->set_and_wait(key_of(meeting.rank), acceptor->endpoint().text(), keys, meeting.until))
    peers.push_back(tcp::Endpoint::parse(endpoint));
  acceptor->meet(peers);
  auto wire = std::make_unique<tcp::TcpWire>(meeting.rank, meeting.size, std::move(acceptor), peers, *meeting.listener);
  return {make_stream_transport("tcp", meeting.rank, meeting.size, std::move(wire), *meeting.listener), {}, {}};
}

}  // namespace

extern const Provider tcp_provider;
const Provider tcp_provider{"tcp", "sockets between ranks that share a network", viable, domain, connect};

}  // namespace tutti
