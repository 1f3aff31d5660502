// Double-tree reduce: the double-tree broadcast in reverse. A rank receives from all its children, three at most, in
// one round, folds their data in the children's order, and sends the result to its parent. With L ranks on each of H
// hosts, d(n) = 1 + floor(log2(n-1)) and d(1) = 0:
//
//   rounds d(H) + d(L), and 1 more if the root does not exchange messages with other hosts     elements n
//   scratch up to 3n     crossing hosts n (H-1) in all, at most n from one host
//
// Sanders, Speck & Träff, "Two-tree algorithms for full bandwidth broadcast, reduction and scan", Parallel Computing
// 2009.
#include "collectives/algorithms/double_tree.hpp"
#include "tutti/topology.hpp"

namespace tutti {

Schedule pieces::fold_up_at_once(const Node& node, std::size_t count) {
  const Range all{0, count};
  const bool is_root = node.parent < 0;
  const int children = static_cast<int>(node.children().size());
  if (children == 0) return fold_up(node, count);
  const Slice partial = is_root ? out(all) : scratch(all);
  // The first child's data is folded when it arrives. The data of the others is stored after the partial result.
  const auto apart = [=](int child) { return scratch({times(child - (is_root ? 1 : 0), count), count}); };
  Schedule plan;
  plan.use_scratch(times(children - (is_root ? 1 : 0), count));
  plan.rounds(children + (is_root ? 0 : 1), [=](int k, Round& round) {
    if (k == children) return round.add(send(node.parent, partial));
    const bool is_last = is_root && k == children - 1;
    if (k > 0) return round.add(last(fold(partial, partial, apart(k)), is_last));
    round.add(last(recv_reduce(node.children()[0], partial, in(all)), is_last));
    for (int i = 1; i < children; ++i) round.add(recv(node.children()[static_cast<std::size_t>(i)], apart(i)));
  });
  return plan;
}

extern const Algorithm reduce_double_tree{
    .kind = Kind::reduce,
    .name = "double_tree",
    .idea = "lanes in turns up two binary trees over hosts, one's leaves fold in the other: for large buffers",
    .plan = [](const Shape& s) -> Schedule { return pieces::fold_up_at_once(pieces::double_tree(s, true), s.count); },
    .cost = [](const Shape& s) -> Cost {
      return {pieces::depth_of_trees(s, true), s.count};
    },
    .crossing = [](const Shape& s) -> Crossing {
      return {times(hosts_of(s).count() - 1, s.count), s.count};
    },
    .expense = [](const Shape& s) -> Expense { return pieces::tree_expense(s, true, true); },
    .ways = pieces::ways_of_trees,
};

}  // namespace tutti
