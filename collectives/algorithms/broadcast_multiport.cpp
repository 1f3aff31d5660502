// Multiport broadcast. A host that has the data forwards it by up to eight of its ranks, each to different hosts; the
// hosts that receive it do the same. The tree over the hosts has no rounds, so no host waits for another: the host that
// receives first has the largest subtree (see postal_tree.hpp). The data enters every host once. A k-nomial tree of
// radix 4 brings it to the host's ranks: label v receives from v with its lowest nonzero digit to the base 4 cleared.
// The number of ranks of a host that send to other hosts is that of the smallest host's ranks, at most eight. For small
// buffers, whose messages take much longer to arrive than to send. With L ranks on each of H hosts, c = min(L, 8), and
// u the units in which the postal tree of c ports reaches H hosts:
//
//   rounds the longest path to a rank, at most floor(u/5) (1 + log4 c) + log4 L     scratch none
//   elements at most 12n + 3n log4 L, at the root or a rank near it
//   crossing hosts n (H-1) in all, at most 12 n c from one host
//
// Bar-Noy & Kipnis, "Designing broadcasting algorithms in the postal model for message-passing systems", SPAA 1992;
// Wilkins et al., "Generalized collective algorithms for the exascale era", CLUSTER 2023 (k-nomial); Huang et al.,
// "PiP-MColl: process-in-process-based multi-object MPI collectives", CLUSTER 2023.
#include <algorithm>
#include <array>

#include "collectives/algorithms/expenses.hpp"
#include "collectives/algorithms/multiport.hpp"
#include "collectives/algorithms/postal_tree.hpp"

namespace tutti {
namespace {

constexpr int radix = 4;

}  // namespace

pieces::Node pieces::knomial(Ring ring, int root) {
  const auto rank_of = [&](std::int64_t label) {
    return modulo(static_cast<int>(label) - ring.size + root, ring.size);
  };
  const std::int64_t label = modulo(ring.rank - root, ring.size);
  Node node;
  std::int64_t place = 1;
  while (place < ring.size && label / place % radix == 0) place *= radix;
  if (label != 0) node.parent = rank_of(label - label / place % radix * place);
  for (place /= radix; place > 0; place /= radix)
    for (int digit = radix - 1; digit > 0; --digit)
      if (label + digit * place < ring.size) node.add(rank_of(label + digit * place));
  return node;
}

int pieces::knomial_depth(int size) {
  int digits = 0;  // of the largest label < size whose digits are all 1: the most nonzero digits of any label
  for (std::int64_t ones = 1; ones < size; ones = ones * radix + 1) ++digits;
  return digits;
}

int pieces::knomial_depth_of(int label) {
  int digits = 0;
  for (; label > 0; label /= radix) digits += label % radix != 0 ? 1 : 0;
  return digits;
}

int pieces::knomial_children(int size) { return static_cast<int>(knomial({0, size}, 0).children().size()); }

pieces::Node pieces::Served::node(std::span<const int> members) const {
  const auto rank = [&](int i) { return members[static_cast<std::size_t>(column + i * columns)]; };
  const Node inside = knomial(ring, 0);
  Node node;
  if (inside.parent >= 0) node.parent = rank(inside.parent);
  for (const int child : inside.children()) node.add(rank(child));
  return node;
}

pieces::Node pieces::multiport_tree(const Shape& s) {
  const Hosts& hosts = hosts_of(s);
  const int host = hosts.host_of(s.rank), home = hosts.host_of(s.root), carriers = carriers_of(hosts);
  const auto host_at = [&](std::int64_t label) {
    return modulo(static_cast<int>(label) - hosts.count() + home, hosts.count());
  };
  const auto entry = [&](int h) { return h == home ? hosts.index_of(s.root) : 0; };
  // labels inside a host are counted from the rank that receives the data first
  const auto member = [&](int h, int label) {
    return hosts[h][static_cast<std::size_t>(modulo(entry(h) + label, hosts.size_of(h)))];
  };
  const Node inside = knomial({hosts.index_of(s.rank), hosts.size_of(host)}, entry(host));
  const int label = modulo(hosts.index_of(s.rank) - entry(host), hosts.size_of(host));
  const PostalTree tree(hosts.count(), carriers);
  PostalTree::Place here;
  tree.each_on_the_way(modulo(host - home, hosts.count()), [&](const PostalTree::Place& place) { here = place; });
  Node node;
  if (inside.parent >= 0) node.parent = hosts[host][static_cast<std::size_t>(inside.parent)];
  if (inside.parent < 0 && here.parent >= 0) node.parent = member(host_at(here.parent), here.port);
  for (const int child : inside.children()) node.add(hosts[host][static_cast<std::size_t>(child)]);
  if (label >= carriers) return node;
  tree.each_child(here, [&](const PostalTree::Place& there) {
    if (there.port == label) node.add(member(host_at(there.label), 0));
  });
  return node;
}

int pieces::multiport_depth(const Shape& s) {
  const Hosts& hosts = hosts_of(s);
  const int home = hosts.host_of(s.root);
  const PostalTree tree(hosts.count(), carriers_of(hosts));
  int most = 0;
  for (int label = 0; label < hosts.count(); ++label) {
    int depth = knomial_depth(hosts.size_of(modulo(label + home - hosts.count(), hosts.count())));
    tree.each_on_the_way(label, [&](const PostalTree::Place& place) {
      if (place.parent >= 0) depth += 1 + knomial_depth_of(place.port);
    });
    most = std::max(most, depth);
  }
  return most;
}

Expense pieces::multiport_tree_expense(const Shape& s, bool up) {
  const Hosts& hosts = hosts_of(s);
  const PostalTree tree(hosts.count(), carriers_of(hosts));
  const double n = expenses::number(s.count), carriers = carriers_of(hosts);
  // The last host to receive the data waits for some messages to travel and some sends; the network decides how many.
  const double sends = tree.sends(tree.units()), hops = 0.12 * tree.units();
  const double inside = knomial_children(hosts.largest()), depth = knomial_depth(hosts.largest());
  Expense one;
  one.load.within = {inside / 2, n * inside};
  one.load.between = {hops + 0.25 * tree.units(), n * std::min(sends * carriers, hosts.count() - 1.0)};
  one.load.folded = up ? n * (inside + sends) : 0;
  one.chain = one.load;
  one.chain.within.messages = depth * (carriers > 1 ? 1 + 1.6 * hops : 1);
  one.chain.between.messages = hops;
  return one;
}

namespace {

/// The most messages that a rank sends, and that a host sends to other hosts.
struct Most {
  int of_rank = 0, of_host = 0;
};
Most most_messages(const Shape& s) {
  const Hosts& hosts = hosts_of(s);
  const int home = hosts.host_of(s.root), carriers = pieces::carriers_of(hosts);
  const pieces::PostalTree tree(hosts.count(), carriers);
  Most most;
  for (int label = 0; label < hosts.count(); ++label) {
    std::array<int, 8> sent{};
    pieces::PostalTree::Place here;
    tree.each_on_the_way(label, [&](const auto& place) { here = place; });
    tree.each_child(here, [&](const auto& there) { ++sent[static_cast<std::size_t>(there.port)]; });
    const int ranks = hosts.size_of(modulo(label + home - hosts.count(), hosts.count()));
    int of_host = 0;
    for (int port = 0; port < carriers; ++port) {
      const int across = sent[static_cast<std::size_t>(port)];
      of_host += across;
      const auto inside = static_cast<int>(pieces::knomial({port, ranks}, 0).children().size());
      most.of_rank = std::max(most.of_rank, inside + across);
    }
    most.of_host = std::max(most.of_host, of_host);
  }
  return most;
}

}  // namespace

extern const Algorithm broadcast_multiport{
    .kind = Kind::broadcast,
    .name = "multiport",
    .idea = "a tree over hosts in which all ranks of a host send to others at the same time: for few bytes",
    .plan = [](const Shape& s) -> Schedule { return pieces::hand_down(pieces::multiport_tree(s), s.count); },
    .cost = [](const Shape& s) -> Cost {
      return {pieces::multiport_depth(s), times(most_messages(s).of_rank, s.count)};
    },
    .crossing = [](const Shape& s) -> Crossing {
      return {times(hosts_of(s).count() - 1, s.count), times(most_messages(s).of_host, s.count)};
    },
    .expense = [](const Shape& s) -> Expense { return pieces::multiport_tree_expense(s, false); },
};

}  // namespace tutti
