// Acceptor: accepts and makes connections, and hands over those whose handshake is complete.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "transports/core/descriptor.hpp"
#include "transports/tcp/directory.hpp"
#include "transports/tcp/endpoint.hpp"
#include "transports/tcp/handshake.hpp"
#include "tutti/provider/transport.hpp"

namespace tutti::tcp {

/// A connection ready for data. Each number is opened at most once per pair of ranks.
struct Opened {
  int stream = -1;  ///< see Membership
  Descriptor socket;
  std::string route;  ///< "10.0.0.4:4711 via eth0"
};

/// Settings of an acceptor, under the names of the global settings.
struct AcceptorSettings {
  std::string iface, host_id;
  std::string congestion = "cubic,reno";  ///< tcp_congestion
  int connections = 1;                    ///< tcp_connections
  bool one_host = false;                  ///< all callers are on this host: listen on loopback alone
};

/// Threads: every member locks. attend() never blocks; it is called by the background thread, so that callers are
/// answered while this rank computes, and by threads that wait for a connection. Failures are reported to the listener,
/// once per peer; the failure of a further connection is ignored.
class __attribute__((visibility("default"))) Acceptor {  // acceptor.cpp hides its other symbols
 public:
  /// Listens at the interfaces that `settings.iface` allows (see allowed_interfaces). Chooses `membership.instance`.
  /// Throws Error{invalid, resource}.
  Acceptor(Membership membership, AcceptorSettings settings, TransportListener& listener);
  ~Acceptor();

  const Endpoint& endpoint() const noexcept;  ///< the endpoint to publish
  void meet(Directory peers);                 ///< call before the first open(); callers wait until then
  int connections(int peer);                  ///< maximum number to the peer; call after meet()
  int most_connections() const;               ///< maximum of connections() over all peers
  std::string host_of(int peer);              ///< the name of its host

  /// Starts to make a connection, unless that is in progress or done. A further one only once the first is open.
  void open(int stream);

  int fd() const noexcept;    ///< readable when attend() has work
  int news() const noexcept;  ///< readable when take() has a connection
  void attend();
  std::vector<Opened> take();

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace tutti::tcp
