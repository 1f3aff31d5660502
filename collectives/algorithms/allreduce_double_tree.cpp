// Double-tree allreduce. There are two binary trees over the hosts: a host that folds in one tree is a leaf of the
// other. Lanes, which are independent parts of the buffer, use the trees in turn. A lane is reduced up to the top of
// its tree and broadcast down the same tree. Lanes are pipelined. Each host sends and receives the buffer twice, and
// the depth is logarithmic. Every element is completed on one rank only. Inside a host, a binary tree leads to the rank
// that exchanges messages with other hosts. Each pair of lanes uses another such rank, up to eight in turn; see
// broadcast_double_tree.cpp. With L ranks on each of H hosts, d(n) = 1 + floor(log2(n-1)) and d(1) = 0:
//
//   rounds 2 floor(log2 H) + 2 d(L)     elements 4n in a lane, 2n on average over the trees     scratch up to 3n
//   crossing hosts 2n (H-1) in all, in a lane 3n from a host, 2n on average
//
// Sanders, Speck & Träff, "Two-tree algorithms for full bandwidth broadcast, reduction and scan", Parallel Computing
// 2009.
#include "collectives/algorithms/double_tree.hpp"
#include "collectives/algorithms/expenses.hpp"
#include "tutti/topology.hpp"

namespace tutti {
namespace {

Schedule plan(const Shape& s) {
  const pieces::Node node = pieces::double_tree(s, false);
  Schedule whole = pieces::fold_up_at_once(node, s.count);
  whole.then(pieces::hand_down(node, s.count));
  return whole;
}

}  // namespace

extern const Algorithm allreduce_double_tree{
    .kind = Kind::allreduce,
    .name = "double_tree",
    .idea = "lanes in turns up and down two binary trees over hosts: pipelined, in few rounds, for large buffers",
    .plan = plan,
    .cost = [](const Shape& s) -> Cost {
      return {2 * pieces::depth_of_trees(s, false), times(pieces::most_sends(s, false, true, true), s.count)};
    },
    .crossing = [](const Shape& s) -> Crossing {
      const int hosts = hosts_of(s).count();
      return {times(2 * (hosts - 1), s.count), times(pieces::most_crossings(hosts, true, true), s.count)};
    },
    .expense = [](const Shape& s) -> Expense {
      return expenses::there_and_back(pieces::tree_expense(s, false, true), pieces::tree_expense(s, false, false));
    },
    .ways = pieces::ways_of_trees,
};

}  // namespace tutti
