// Chain reduce. The rank before the root starts; each rank folds the data from its next neighbour into its own
// contribution and sends it to the previous one, up to the root. A large buffer is cut into parts, its lanes, which are
// pipelined along the chain, so every link and core is busy: each rank sends and folds the buffer once.
//
//   rounds p-1 (for the first lane)     elements n     scratch n on ranks that are not at an end of the chain
//
// Chan, Heimlich, Purkayastha & van de Geijn, "Collective communication: theory, practice, and experience",
// Concurrency and Computation 2007.
#include "collectives/algorithms/expenses.hpp"
#include "collectives/algorithms/pieces.hpp"
#include "collectives/plan/algorithm.hpp"

namespace tutti {

extern const Algorithm reduce_chain{
    .kind = Kind::reduce,
    .name = "chain",
    .idea = "folded from neighbour to neighbour up to the root, lane after lane, for large buffers",
    .plan = [](const Shape& s) -> Schedule {
      return pieces::fold_up(pieces::chain({s.rank, s.size}, s.root), s.count);
    },
    .cost = [](const Shape& s) -> Cost {
      return {s.size - 1, s.count};
    },
    .expense =
        [](const Shape& s) {
          using namespace expenses;
          return chain_of_ranks(s, number(s.count), true);
        },
    .racks = true,
};

}  // namespace tutti
