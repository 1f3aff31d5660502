// Double-tree broadcast. There are two binary trees over the hosts: a host that forwards in one tree is a leaf of the
// other. Lanes, which are independent parts of the buffer, use the trees in turn. So a host receives the buffer once
// and sends it once, as in a chain, but the first lane reaches all ranks after a logarithmic number of messages. The
// root is outside both trees and sends to their tops. On each host, one rank per lane, the talker, exchanges messages
// with other hosts. Each pair of lanes uses another talker, up to eight in turn. From the talker, one of two binary
// trees goes to the other ranks of its host. On the root's host, the root is the talker of the first pair of lanes, and
// sends to the talkers of the other lanes. A single lane uses one binary tree. On one host there are two trees over its
// ranks. With L ranks on each of H hosts, d(n) = 1 + floor(log2(n-1)) and d(1) = 0:
//
//   rounds d(H) + d(L), and 1 more if the root is not the talker
//   elements 3n in a lane, n on average over the trees     scratch none
//   crossing hosts n (H-1) in all, in a lane 2n from a host, n on average
//
// A tree has labels 1 to n in search order: labels in the left subtree of a label are smaller, those in the right
// subtree are larger, and the top is the largest power of two. So odd labels are leaves. The second tree is the first
// one mirrored if n is even, and shifted by one label if n is odd. So odd labels of one tree are even in the other.
//
// Sanders, Speck & Träff, "Two-tree algorithms for full bandwidth broadcast, reduction and scan", Parallel Computing
// 2009.
#include <algorithm>

#include "collectives/algorithms/double_tree.hpp"
#include "tutti/topology.hpp"

namespace tutti {
namespace {

/// A label's neighbours in the tree of the labels 1 to `labels`; 0: none.
struct InOrder {
  int parent = 0, left = 0, right = 0;
};
InOrder in_order(int label, int labels) {
  InOrder node;
  for (int before = 0, rest = labels;;) {  // `label` is in the subtree of labels before + 1, ..., before + rest
    const int half = power_of_two_below(rest), top = before + half;
    if (label == top) {
      if (half > 1) node.left = before + half / 2;
      if (rest > half) node.right = top + power_of_two_below(rest - half);
      return node;
    }
    node.parent = top;
    rest = label < top ? half - 1 : rest - half;
    before = label < top ? before : top;
  }
}

/// Tree `which` (0 or 1) over the ranks of a ring. With a root, the root is outside the tree: it has label 0, and the
/// top is its only child. The other ranks have labels 1 to size - 1 by their distance from the root, rotated by `turn`.
/// If `root` is -1 there is no root, and rank r has label r + 1. These are the labels of tree 0.
struct TwoTrees {
  int size, root, which, turn;

  int labels() const { return root < 0 ? size : size - 1; }
  int label_of(int rank) const {
    const int place = modulo(rank - root, size);
    if (root < 0) return place_to_label(place == 0 ? size : place);
    return place == 0 ? 0 : place_to_label(1 + modulo(place - 1 - turn, size - 1));
  }
  int rank_of(int label) const {
    if (label == 0) return root;
    const int place = label_to_place(label);
    return modulo(root < 0 ? place - 1 : root + 1 + modulo(place - 1 + turn, size - 1), size);
  }
  int top() const { return labels() == 0 ? -1 : rank_of(power_of_two_below(labels())); }

  pieces::Node node(int rank) const {
    pieces::Node found;
    const int label = label_of(rank);
    if (label == 0) {
      if (labels() > 0) found.add(top());
      return found;
    }
    const InOrder near = in_order(label, labels());
    if (near.parent > 0 || root >= 0) found.parent = rank_of(near.parent);
    if (near.left > 0) found.add(rank_of(near.left));
    if (near.right > 0) found.add(rank_of(near.right));
    return found;
  }

 private:
  int place_to_label(int place) const {
    if (which == 0) return place;
    return labels() % 2 == 0 ? labels() + 1 - place : place == 1 ? labels() : place - 1;
  }
  int label_to_place(int label) const {
    if (which == 0) return label;
    return labels() % 2 == 0 ? labels() + 1 - label : label == labels() ? 1 : label + 1;
  }
};

/// The trees of the lanes that have schedule number s.way: over hosts and inside hosts.
struct TreesOfHosts {
  const Hosts& hosts;
  int which, column, home, root;  // home: the root's host, root: its local index; both are -1 without a root

  TreesOfHosts(const Shape& s, bool is_rooted)
      : hosts(hosts_of(s)),
        which(s.way % 2),
        column(s.way / 2),
        home(is_rooted ? hosts.host_of(s.root) : -1),
        root(is_rooted ? hosts.index_of(s.root) : -1) {}

  TwoTrees inside(int host) const {
    const int size = hosts.size_of(host);
    if (host != home) return {size, column, which, 0};
    TwoTrees trees{size, root, which, 0};
    if (column > 0) trees.turn = modulo(column - modulo(trees.top() - root, size), size - 1);
    return trees;
  }
  TwoTrees between() const { return {hosts.count(), home, which, 0}; }
  /// The local index of the rank that exchanges messages with other hosts.
  int talker(int host) const { return host == home ? modulo(root + column, hosts.size_of(host)) : column; }
  int rank_of(int host, int index) const { return hosts[host][static_cast<std::size_t>(index)]; }
};

/// The number of messages, one after another, from the top until the last label has received. A label sends to its left
/// child first, then to its right child.
double longest_way(int labels) {
  double most = 0, before = 0;
  for (int rest = labels; rest > 0;) {
    const int half = power_of_two_below(rest);
    if (half > 1) most = std::max(most, before + 1 + 2 * (log2_floor(half) - 1));
    rest -= half;
    if (rest > 0) before += half > 1 ? 2 : 1;
    most = std::max(most, before);
  }
  return most;
}

int depth(int size) { return size == 1 ? 0 : 1 + log2_floor(std::max(size - 1, 1)); }

}  // namespace

pieces::Node pieces::double_tree(const Shape& s, bool is_rooted) {
  const TreesOfHosts trees(s, is_rooted);
  const int host = trees.hosts.host_of(s.rank), index = trees.hosts.index_of(s.rank);
  const Node inside = trees.inside(host).node(index);
  Node node;
  if (inside.parent >= 0) node.parent = trees.rank_of(host, inside.parent);
  if (index == trees.talker(host)) {
    const Node between = trees.between().node(host);
    if (between.parent >= 0) node.parent = trees.rank_of(between.parent, trees.talker(between.parent));
    for (const int child : between.children()) node.add(trees.rank_of(child, trees.talker(child)));
  }
  for (const int child : inside.children()) node.add(trees.rank_of(host, child));
  return node;
}

int pieces::ways_of_trees(const Shape& s) {
  const Hosts& hosts = hosts_of(s);
  return hosts.count() == 1 ? 2 : 2 * std::min(hosts.columns(), most_ways / 2);
}

int pieces::depth_of_trees(const Shape& s, bool is_rooted) {
  const Hosts& hosts = hosts_of(s);
  if (!is_rooted) return log2_floor(hosts.count()) + depth(hosts.largest());
  const bool passes_on = hosts.count() > 1 && s.way / 2 > 0;
  return depth(hosts.count()) + depth(hosts.largest()) + (passes_on ? 1 : 0);
}

int pieces::most_sends(const Shape& s, bool is_rooted, bool up, bool down) {
  int most = 0;
  Shape one = s;
  for (one.rank = 0; one.rank < s.size; ++one.rank) {
    const Node node = double_tree(one, is_rooted);
    const int sends = (up && node.parent >= 0 ? 1 : 0) + (down ? static_cast<int>(node.children().size()) : 0);
    most = std::max(most, sends);
  }
  return most;
}

int pieces::most_crossings(int hosts, bool up, bool down) {
  if (!down) return 1;
  if (!up) return hosts < 4 ? 1 : 2;  // the top of a tree of 3 hosts or more has 2 children
  return std::min(hosts - 1, 3);
}

Expense pieces::tree_expense(const Shape& s, bool is_rooted, bool up) {
  const Hosts& hosts = hosts_of(s);
  const auto n = static_cast<double>(s.count);
  const int labels = hosts.count() - (is_rooted ? 1 : 0), inside = hosts.largest() - 1;
  Expense one;
  one.chain.between.messages = is_rooted ? depth(hosts.count()) : log2_floor(hosts.count());
  one.chain.between.elements = n * (longest_way(labels) + (is_rooted && labels > 0 ? 1 : 0));
  one.chain.within.messages = depth(hosts.largest());
  one.chain.within.elements = n * (longest_way(inside) + (inside > 0 ? 1 : 0));
  // The load is the average over the lanes, because each rank forwards in only one of the two trees.
  const double talkers = hosts.count() == 1 ? 1 : ways_of_trees(s) / 2;
  // Without a root, the top of each tree receives nothing, or sends nothing upwards.
  const auto moved = [&](double ends) { return ends == 1 ? 0 : is_rooted ? n : n * (ends - 1) / ends; };
  one.load.between = {hosts.count() > 1 ? 1 / talkers : 0, moved(hosts.count())};
  one.load.within = {inside > 0 ? 1.0 : 0, moved(hosts.largest())};
  // A rank receives one message and sends two, one after the other.
  if (one.chain.between.messages > 0) one.stay.between = {2, 2 * n};
  if (one.chain.within.messages > 0) one.stay.within = {2, 2 * n};
  if (!up) return one;
  one.chain.folded = one.chain.between.elements + one.chain.within.elements;
  one.load.folded = one.load.within.elements + one.load.between.elements / talkers;
  // A rank that is a leaf of one tree sends at once, ahead of what it forwards in the other, so the messages of both
  // trees reach a folding rank in bursts, and its load is above the average. The factors are fitted to replay().
  const double in_bursts = inside > 0 ? 1.25 : is_rooted ? 1.35 : 1;
  one.load.within.elements *= in_bursts;
  one.load.between.elements *= in_bursts;
  return one;
}

extern const Algorithm broadcast_double_tree{
    .kind = Kind::broadcast,
    .name = "double_tree",
    .idea = "lanes in turns down two binary trees over hosts, one's leaves forward in the other: for large buffers",
    .plan = [](const Shape& s) -> Schedule { return pieces::hand_down(pieces::double_tree(s, true), s.count); },
    .cost = [](const Shape& s) -> Cost {
      return {pieces::depth_of_trees(s, true), times(pieces::most_sends(s, true, false, true), s.count)};
    },
    .crossing = [](const Shape& s) -> Crossing {
      const int hosts = hosts_of(s).count();
      return {times(hosts - 1, s.count), times(pieces::most_crossings(hosts, false, true), s.count)};
    },
    .expense = [](const Shape& s) -> Expense { return pieces::tree_expense(s, true, false); },
    .ways = pieces::ways_of_trees,
};

}  // namespace tutti
