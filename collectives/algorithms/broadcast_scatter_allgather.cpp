// Scatter-allgather broadcast (van de Geijn). The root's buffer is cut into one chunk per rank and scattered along a
// binomial tree, each chunk to its final place; then a ring allgather distributes the chunks. No rank sends more than
// about 2n, instead of n log2 p. Ranks are numbered from the root.
//
//   rounds floor(log2 p) + p - 1     elements 2n less the two largest chunks (the root)     scratch none
//
// Barnett, Gupta, Payne, Shuler, van de Geijn & Watts, "Interprocessor collective communication library", SHPCC 1994.
#include "collectives/algorithms/expenses.hpp"
#include "collectives/algorithms/pieces.hpp"
#include "collectives/plan/algorithm.hpp"

namespace tutti {
namespace {

Schedule plan(const Shape& s) {
  const BinomialTree tree{s.rank, s.size, s.root};
  const Chunks chunk(s.count, s.size);
  Schedule scatter;
  if (s.rank != s.root)
    scatter.round([=](Round& round) { round.add(recv(tree.parent(), out(chunk.run(tree.label(), tree.span())))); });
  scatter.round([=](Round& round) {
    for (int i = 0; i < tree.children(); ++i) {
      const auto child = tree.child(i);
      round.add(send(child.rank, out(chunk.run(child.label, child.span))));
    }
  });
  scatter.then(pieces::circulate({tree.label(), s.size}, Blocks(chunk), out(chunk[tree.label()]))
                   .on(Members::from(s.root, s.size)));
  return scatter;
}

}  // namespace

extern const Algorithm broadcast_scatter_allgather{
    .kind = Kind::broadcast,
    .name = "scatter_allgather",
    .idea = "a chunk for everyone down a tree, then all chunks around a ring, for large buffers",
    .plan = plan,
    .cost = [](const Shape& s) -> Cost {
      return {log2_floor(s.size) + s.size - 1, 2 * s.count - Chunks(s.count, s.size).run(0, 2).count};
    },
    .parts = [](const Shape& s) { return s.size; },
    .expense =
        [](const Shape& s) {
          using namespace expenses;
          return tree(flat(s), log2_floor(s.size), log2_ceil(s.size), number(s.count) / std::max(1, log2_ceil(s.size)),
                      false) +
                 ring_of_ranks(s, number(s.count) / s.size);
        },
};

}  // namespace tutti
