// The ways in which ranks of a conformance test connect: by one provider, by two, or with a decorator around it.
#pragma once

#include <ostream>

#include "tests/support/process_ranks.hpp"
#include "tests/support/ranks.hpp"
#include "transports/decorators/chaos.hpp"
#include "transports/decorators/routed.hpp"
#include "tutti/provider/provider.hpp"
#include "tutti/store.hpp"

namespace tutti::testing {

/// One provider. If there is a second one, ranks of one host use the first, all other pairs the second. If `host` is
/// empty, ranks 2i and 2i+1 share a host.
struct Way {
  const Provider* near = nullptr;
  const Provider* far = nullptr;
  bool chaos = false;
  std::vector<int> host = {};  ///< the host of each rank
  int tcp_connections = 0;     ///< value of the setting; 0: unset

  int host_of(int rank) const { return host.empty() ? rank / 2 : host[static_cast<std::size_t>(rank)]; }

  std::string name() const {
    std::string text(near->name);
    if (far) text = "routed_" + text + "_" + std::string(far->name);
    if (tcp_connections > 0) text += "_" + std::to_string(tcp_connections) + "_connections";
    return chaos ? "chaos_" + text : text;
  }
  friend std::ostream& operator<<(std::ostream& out, const Way& way) { return out << way.name(); }
};

/// Returns every provider alone and under chaos, tcp with several connections, and the preferred provider combined
/// with each of the others (with itself if there is no other).
inline std::vector<Way> all_ways() {
  std::vector<Way> ways;
  if (const Provider* const only = process_world().provider) return {{only, nullptr, false}, {only, nullptr, true}};
  for (const Provider* one : providers()) ways.push_back({one, nullptr, false});
  for (const Provider* one : providers()) ways.push_back({one, nullptr, true});
  for (const Provider* one : providers())
    if (one->name == "tcp") ways.push_back({one, nullptr, false, {}, 4});
  const Provider* const first = providers().front();
  for (const Provider* one : providers())
    if (one != first || providers().size() == 1) ways.push_back({first, one, false});
  return ways;
}

/// Returns why `way` cannot be tested here; empty if it can.
inline std::string not_viable(const Way& way, const Settings& settings) {
  for (const Provider* one : {way.near, way.far})
    if (one)
      if (const Viability viability = one->viable(settings); !viability.viable)
        return std::string(one->name) + " is not viable here: " + viability.reason;
  return {};
}

inline std::unique_ptr<Transport> connect_by(const Provider& provider, Rank& rank, std::vector<int> peers,
                                             const std::shared_ptr<Store>& store, const Settings& settings) {
  Rendezvous meeting;
  meeting.rank = rank.rank();
  meeting.size = rank.size();
  meeting.peers = std::move(peers);
  meeting.store = store.get();
  meeting.settings = &settings;
  meeting.listener = &rank.listener;
  meeting.until = deadline_in(Seconds(30));
  Connected connected = provider.connect(meeting);
  EXPECT_TRUE(connected.unreached.empty()) << connected.reason;
  return std::move(connected.transport);
}

/// Returns the transport of `rank` that `way` describes. `store` is shared by all ranks.
inline std::unique_ptr<Transport> connect(const Way& way, Rank& rank, const std::shared_ptr<Store>& store,
                                          const Settings& settings) {
  std::vector<int> near, far, route;
  for (int peer = 0; peer < rank.size(); ++peer) {
    const bool neighbour = !way.far || way.host_of(peer) == way.host_of(rank.rank());
    route.push_back(neighbour ? 0 : 1);
    if (peer != rank.rank()) (neighbour ? near : far).push_back(peer);
  }
  const std::string host = way.far ? std::to_string(way.host_of(rank.rank())) : "all";
  std::unique_ptr<Transport> transport =
      connect_by(*way.near, rank, near, make_prefix_store(store, "near" + host), settings);
  if (way.far) {
    std::vector<std::unique_ptr<Transport>> both;
    both.push_back(std::move(transport));
    both.push_back(connect_by(*way.far, rank, far, make_prefix_store(store, "far"), settings));
    transport = make_routed(rank.rank(), rank.size(), std::move(both), std::move(route));
  }
  if (way.chaos)
    transport = make_chaos(std::move(transport), rank.listener, parse_chaos("delay=8,lazy=30,short=20,eintr=10"));
  return transport;
}

}  // namespace tutti::testing
