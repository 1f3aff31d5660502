// Door: lets callers in, calls others, and hands over the connections whose handshake is over.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "transports/core/descriptor.hpp"
#include "transports/tcp/card.hpp"
#include "transports/tcp/handshake.hpp"
#include "transports/transport.hpp"

namespace tutti::tcp {

/// A connection ready for data. Of each number there is one per pair of ranks, ever.
struct Opened {
  int stream = -1;  ///< see Membership
  Descriptor socket;
  std::string route;  ///< "10.0.0.4:4711 via eth0"
};

/// What a door may use, and how it calls itself; as the settings of the same names.
struct DoorSettings {
  std::string iface, host_id;
  std::string congestion = "cubic,reno";  ///< tcp_congestion
  int connections = 1;                    ///< tcp_connections
};

/// Threads: every member locks. attend() never blocks; the background thread calls it so that
/// callers are answered while this rank computes, and so does whoever waits for a connection.
/// Failures go to the listener, once per peer; a further connection that cannot be had is none.
class __attribute__((visibility("default"))) Door {  // door.cpp hides what it does not name
 public:
  /// Listens at the interfaces that `settings.iface` names (see allowed_interfaces). `membership.instance`
  /// is drawn here. Throws Error{invalid, resource}.
  Door(Membership membership, DoorSettings settings, TransportListener& listener);
  ~Door();

  const Card& card() const noexcept;         ///< what to publish
  void meet(std::vector<Card> peers);        ///< before the first open()
  int connections(int peer) const noexcept;  ///< that there may be; after meet()

  /// Starts to make a connection, unless that is under way or done. A further one only where the first is open.
  void open(int stream);

  int fd() const noexcept;    ///< readable when attend() has something to do
  int news() const noexcept;  ///< readable when take() has something
  void attend();
  std::vector<Opened> take();

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace tutti::tcp
