// Binomial reduce: the binomial broadcast in reverse. A rank folds its children's results into its own contribution,
// smallest subtree first, and sends the result to its parent. Partial results are in scratch, at the root in `out`; a
// leaf sends directly from `in`.
//
//   rounds ceil(log2 p)     elements n     scratch n
//
// Thakur, Rabenseifner & Gropp, "Optimization of collective communication operations in MPICH", IJHPCA 2005.
#include "collectives/algorithms/expenses.hpp"
#include "collectives/algorithms/pieces.hpp"
#include "collectives/plan/algorithm.hpp"

namespace tutti {

Schedule pieces::fold_up(const Node& node, std::size_t count, Slice result) {
  const Range all{0, count};
  const bool is_root = node.parent < 0;
  const int children = static_cast<int>(node.children().size());
  if (is_root && children == 0) return alone(count);
  const Slice partial = is_root ? result : scratch(all);
  Schedule plan;
  plan.rounds(children, [=](int k, Round& round) {
    const int child = node.children()[static_cast<std::size_t>(children - 1 - k)];
    round.add(last(recv_reduce(child, partial, k == 0 ? in(all) : partial), is_root && k == children - 1));
  });
  if (is_root) return plan;
  if (children > 0) plan.use_scratch(count);
  plan.round([=, parent = node.parent](Round& round) { round.add(send(parent, children == 0 ? in(all) : partial)); });
  return plan;
}

Schedule pieces::reduce_binomial(const Shape& s) { return fold_up(binomial({s.rank, s.size}, s.root), s.count); }

extern const Algorithm reduce_binomial{
    .kind = Kind::reduce,
    .name = "binomial",
    .idea = "a binomial tree upwards, folded at every node, for small buffers",
    .plan = pieces::reduce_binomial,
    .cost = [](const Shape& s) -> Cost {
      return {log2_ceil(s.size), s.count};
    },
    .expense =
        [](const Shape& s) {
          using namespace expenses;
          return binomial(flat(s), s.size, number(s.count), true);
        },
};

}  // namespace tutti
