// Hierarchical broadcast. A binomial tree over the hosts, from the root, brings the data to one rank of each host; a
// binomial tree on each host, from that rank, brings it to the others. A rank sends to other hosts first. The data
// enters every host once, for any placement of ranks. With L ranks on each of H hosts:
//
//   rounds floor(log2 H) + floor(log2 L)     elements n ceil(log2 H) + n ceil(log2 L) (the root)     scratch none
//   crossing n (H-1) in all, from the root's host n ceil(log2 H)
//
// Karonis et al., "Exploiting hierarchy in parallel computer networks to optimize collective operation performance",
// IPDPS 2000.
#include <algorithm>

#include "collectives/algorithms/pieces.hpp"
#include "collectives/plan/algorithm.hpp"
#include "tutti/topology.hpp"

namespace tutti {

pieces::Node pieces::tree_of_hosts(const Shape& s, Tree tree) {
  const Hosts& hosts = hosts_of(s);
  const int host = hosts.host_of(s.rank), home = hosts.host_of(s.root);
  // the rank that receives the data first
  const auto first = [&](int h) { return h == home ? hosts.index_of(s.root) : 0; };
  const auto member = [&](int h, int index) { return hosts[h][static_cast<std::size_t>(index)]; };
  const Node inside = tree({hosts.index_of(s.rank), hosts.size_of(host)}, first(host));
  Node node;
  if (inside.parent >= 0) {
    node.parent = member(host, inside.parent);
  } else {
    const Node between = tree({host, hosts.count()}, home);
    if (between.parent >= 0) node.parent = member(between.parent, first(between.parent));
    for (const int child : between.children()) node.add(member(child, first(child)));
  }
  for (const int child : inside.children()) node.add(member(host, child));
  return node;
}

namespace {

Schedule plan(const Shape& s) { return pieces::hand_down(pieces::tree_of_hosts(s, pieces::binomial), s.count); }

Cost cost(const Shape& s) {
  const Hosts& hosts = hosts_of(s);
  const int home = hosts.host_of(s.root);
  int messages = 0;
  for (int host = 0; host < hosts.count(); ++host) {
    const int across = BinomialTree{host, hosts.count(), home}.children();
    messages = std::max(messages, across + log2_ceil(hosts.size_of(host)));
  }
  return {log2_floor(hosts.count()) + log2_floor(hosts.largest()), times(messages, s.count)};
}

Crossing crossing(const Shape& s) {
  const int hosts = hosts_of(s).count();
  return {times(hosts - 1, s.count), times(log2_ceil(hosts), s.count)};
}

}  // namespace

extern const Algorithm broadcast_hierarchical{
    .kind = Kind::broadcast,
    .name = "hierarchical",
    .idea = "a binomial tree over hosts, then one on each: into every host once, for small buffers",
    .plan = plan,
    .cost = cost,
    .crossing = crossing,
};

}  // namespace tutti
