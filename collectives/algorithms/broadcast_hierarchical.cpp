// Hierarchical broadcast. A binomial tree over the hosts, from the root, brings the data to one rank of each host; a
// binomial tree on each host, from that rank, brings it to the others. A rank sends to other hosts first. The data
// enters every host once, for any placement of ranks. If hosts are grouped by R racks, the tree over the hosts consists
// in the same way of a tree over the racks and of one in each rack. So the data enters every rack once too, and
// log2 R + log2 (H/R) replaces log2 H. With L ranks on each of H hosts:
//
//   rounds floor(log2 H) + floor(log2 L)     elements n ceil(log2 H) + n ceil(log2 L) (the root)     scratch none
//   crossing hosts n (H-1) in all, from the root's host n ceil(log2 H)
//
// Karonis et al., "Exploiting hierarchy in parallel computer networks to optimize collective operation performance",
// IPDPS 2000.
#include <algorithm>

#include "collectives/algorithms/expenses.hpp"
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
    const Node between = tree_over_hosts(hosts, host, home, tree);
    if (between.parent >= 0) node.parent = member(between.parent, first(between.parent));
    for (const int child : between.children()) node.add(member(child, first(child)));
  }
  for (const int child : inside.children()) node.add(member(host, child));
  return node;
}

pieces::Node pieces::tree_over_hosts(const Hosts& hosts, int host, int home, Tree tree) {
  if (hosts.above() == nullptr) return tree({host, hosts.count()}, home);
  return tree_of_hosts({.rank = host, .size = hosts.count(), .root = home, .hosts = hosts.above()}, tree);
}

int pieces::sent_down(const Shape& s, Tree tree, int (*within)(int ranks)) {
  const Hosts& hosts = hosts_of(s);
  int messages = 0;
  for (int host = 0; host < hosts.count(); ++host) {
    const auto across = tree_over_hosts(hosts, host, hosts.host_of(s.root), tree).children().size();
    messages = std::max(messages, static_cast<int>(across) + within(hosts.size_of(host)));
  }
  return messages;
}

Crossing pieces::crossing_down(const Shape& s, Tree tree) {
  return {times(hosts_of(s).count() - 1, s.count), times(sent_down(s, tree, [](int) { return 0; }), s.count)};
}

namespace {

Schedule plan(const Shape& s) { return pieces::hand_down(pieces::tree_of_hosts(s, pieces::binomial), s.count); }

Cost cost(const Shape& s) {
  return {expenses::depth_of_trees(hosts_of(s), log2_floor),
          times(pieces::sent_down(s, pieces::binomial, log2_ceil), s.count)};
}

}  // namespace

extern const Algorithm broadcast_hierarchical{
    .kind = Kind::broadcast,
    .name = "hierarchical",
    .idea = "a binomial tree over hosts, then one on each: into every host once, for small buffers",
    .plan = plan,
    .cost = cost,
    .crossing = [](const Shape& s) { return pieces::crossing_down(s, pieces::binomial); },
    .expense =
        [](const Shape& s) {
          using namespace expenses;
          return of_trees(hosts_of(s),
                          [&](Links links, int ranks) { return binomial(links, ranks, number(s.count), false); });
        },
    .racks = true,
};

}  // namespace tutti
