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

/// A connection ready for data. One per pair of ranks, ever.
struct Opened {
  int peer = -1;
  Descriptor socket;
  std::string route;  ///< "10.0.0.4:4711 via eth0"
};

/// What a door may use, and how it calls itself; as the settings of the same names.
struct DoorSettings {
  std::string iface, host_id;
  std::string congestion = "cubic,reno";  ///< tcp_congestion
};

/// Threads: every member locks. attend() never blocks; the background thread calls it so that
/// callers are answered while this rank computes, and so does whoever waits for a connection.
/// Failures go to the listener, once per peer.
class __attribute__((visibility("default"))) Door {  // door.cpp hides what it does not name
 public:
  /// Listens at the interfaces that `settings.iface` names (see allowed_interfaces). `membership.instance`
  /// is drawn here. Throws Error{invalid, resource}.
  Door(Membership membership, DoorSettings settings, TransportListener& listener);
  ~Door();

  const Card& card() const noexcept;   ///< what to publish
  void meet(std::vector<Card> peers);  ///< before the first open()

  /// Starts to connect to `peer`, unless that is under way or done.
  void open(int peer);

  int fd() const noexcept;    ///< readable when attend() has something to do
  int news() const noexcept;  ///< readable when take() has something
  void attend();
  std::vector<Opened> take();

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace tutti::tcp
