// Multiport reduce: the multiport broadcast in reverse. A k-nomial tree on every host reduces to one rank, which on the
// root's host is the root. The ranks of a host receive the results of different hosts at the same time, fold them, and
// send the sums up their own host's tree. A rank receives from all its children in one round and folds in their order.
// For small buffers. With L ranks on each of H hosts:
//
//   rounds those of the broadcast     elements n
//   scratch n for each child: at most 12n + 3n log4 L     crossing hosts n (H-1) in all, at most n from one host
//
// Bar-Noy & Kipnis, "Designing broadcasting algorithms in the postal model for message-passing systems", SPAA 1992;
// Karp, Sahay, Santos & Schauser, "Optimal broadcast and summation in the LogP model", SPAA 1993; Huang et al.,
// "PiP-MColl: process-in-process-based multi-object MPI collectives", CLUSTER 2023.
#include "collectives/algorithms/multiport.hpp"

namespace tutti {

extern const Algorithm reduce_multiport{
    .kind = Kind::reduce,
    .name = "multiport",
    .idea = "a tree over hosts in which all ranks of a host receive from others at the same time: for few bytes",
    .plan = [](const Shape& s) -> Schedule { return pieces::fold_up_at_once(pieces::multiport_tree(s), s.count); },
    .cost = [](const Shape& s) -> Cost {
      return {pieces::multiport_depth(s), s.count};
    },
    .crossing = [](const Shape& s) -> Crossing {
      return {times(hosts_of(s).count() - 1, s.count), s.count};
    },
    .expense = [](const Shape& s) -> Expense { return pieces::multiport_tree_expense(s, true); },
};

}  // namespace tutti
