// Hierarchical reduce: the hierarchical broadcast in reverse. A binomial tree on every host reduces to one rank, which
// on the root's host is the root; a binomial tree over the hosts reduces these results to the root. Every host except
// the root's sends the buffer once. If hosts are grouped by racks, every rack except the root's sends it once too. With
// L ranks on each of H hosts:
//
//   rounds ceil(log2 L) + ceil(log2 H)     elements n     scratch n
//   crossing hosts n (H-1) in all, at most n from one host
//
// Karonis et al., "Exploiting hierarchy in parallel computer networks to optimize collective operation performance",
// IPDPS 2000.
#include "collectives/algorithms/expenses.hpp"
#include "collectives/algorithms/pieces.hpp"
#include "collectives/plan/algorithm.hpp"
#include "tutti/topology.hpp"

namespace tutti {
namespace {

Cost cost(const Shape& s) { return {expenses::depth_of_trees(hosts_of(s), log2_ceil), s.count}; }

}  // namespace

extern const Algorithm reduce_hierarchical{
    .kind = Kind::reduce,
    .name = "hierarchical",
    .idea = "a binomial tree on each host, then one over hosts: out of every host once, for small buffers",
    .plan = [](const Shape& s) -> Schedule {
      return pieces::fold_up(pieces::tree_of_hosts(s, pieces::binomial), s.count);
    },
    .cost = cost,
    .crossing = [](const Shape& s) -> Crossing {
      return {times(hosts_of(s).count() - 1, s.count), s.count};
    },
    .expense =
        [](const Shape& s) {
          using namespace expenses;
          return of_trees(hosts_of(s),
                          [&](Links links, int ranks) { return binomial(links, ranks, number(s.count), true); });
        },
    .racks = true,
};

}  // namespace tutti
