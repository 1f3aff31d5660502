// Binomial broadcast. Ranks are relabelled so that the root is 0; label v receives from v with its lowest set bit
// cleared, and then sends to v + bit for every lower bit. Each round doubles the number of ranks that have the data.
// A rank sends to all its children in one round, to the child with the largest subtree first.
//
//   rounds floor(log2 p), the depth of the tree     elements ceil(log2 p) n (the root)     scratch none
//
// Thakur, Rabenseifner & Gropp, "Optimization of collective communication operations in MPICH", IJHPCA 2005.
#include "collectives/algorithms/expenses.hpp"
#include "collectives/algorithms/pieces.hpp"
#include "collectives/plan/algorithm.hpp"

namespace tutti {

pieces::Node pieces::binomial(Ring ring, int root) {
  const BinomialTree tree{ring.rank, ring.size, root};
  Node node;
  if (ring.rank != root) node.parent = tree.parent();
  for (int i = 0; i < tree.children(); ++i) node.add(tree.child(i).rank);
  return node;
}

Schedule pieces::hand_down(const Node& node, std::size_t count) {
  const Slice all = out({0, count});
  Schedule plan;
  if (node.parent >= 0) plan.round([=, parent = node.parent](Round& round) { round.add(recv(parent, all)); });
  plan.round([=](Round& round) {
    for (const int child : node.children()) round.add(send(child, all));
  });
  return plan;
}

Schedule pieces::broadcast_binomial(const Shape& s) { return hand_down(binomial({s.rank, s.size}, s.root), s.count); }

extern const Algorithm broadcast_binomial{
    .kind = Kind::broadcast,
    .name = "binomial",
    .idea = "a binomial tree: those who have the data double every round, for small buffers",
    .plan = pieces::broadcast_binomial,
    .cost = [](const Shape& s) -> Cost {
      return {log2_floor(s.size), times(log2_ceil(s.size), s.count)};
    },
    .expense =
        [](const Shape& s) {
          using namespace expenses;
          return binomial(flat(s), s.size, number(s.count), false);
        },
};

}  // namespace tutti
