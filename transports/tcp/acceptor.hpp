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

/// A connection ready for data. Between two ranks, each connection number is opened at most once.
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
  bool one_host = false;                  ///< all callers are on this host: listen on loopback only
};

/// A caller is a process that connects to this rank; a stranger is a caller without the job's secret. Any thread.
/// attend() never blocks. The background thread calls it, so that callers get an answer while this rank computes;
/// threads that wait for a connection call it too. The failure of the first connection with a peer is reported to the
/// listener, once. The failure of a further connection is only logged.
class __attribute__((visibility("default"))) Acceptor {  // acceptor.cpp hides its other symbols
 public:
  /// Listens at the interfaces that `settings.iface` allows (see allowed_interfaces). Chooses `membership.instance`.
  /// Throws Error{invalid, resource}.
  Acceptor(Membership membership, AcceptorSettings settings, TransportListener& listener);
  ~Acceptor();

  const Endpoint& endpoint() const noexcept;  ///< the endpoint to publish
  void meet(Directory peers);                 ///< call before the first open(); only then are callers answered
  int connections(int peer);                  ///< maximum number of connections with the peer; call after meet()
  int most_connections() const;               ///< maximum of connections() over all peers
  std::string host_of(int peer);              ///< the name of the peer's host; empty if it is not known

  /// Starts to make the connection `stream`, unless it is in progress or done. Open a further connection with a peer
  /// only after the first one is open.
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
