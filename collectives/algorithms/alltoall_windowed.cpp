// Windowed alltoall. In round k every rank sends to the eight ranks from 8k + 1 to 8k + 8 ahead, and receives from
// the ranks as far behind. So up to eight messages at a time are in flight, not all. Both sides know the length of a
// message from their counts, and skip it if it is zero.
//
//   rounds (p-1)/8, rounded up     elements (p-1) n, n the count of one block     scratch none
//
// Thakur, Rabenseifner & Gropp, "Optimization of collective communication operations in MPICH", IJHPCA 2005 (one
// partner at a time).
#include <algorithm>

#include "collectives/algorithms/expenses.hpp"
#include "collectives/plan/algorithm.hpp"
#include "collectives/plan/geometry.hpp"
#include "tutti/topology.hpp"

namespace tutti {
namespace {

constexpr int window = 8;

int rounds_for(int size) { return (size - 1 + window - 1) / window; }

Schedule plan(const Shape& s) {
  const Blocks mine(s.count, s.size, s.in_blocks), theirs(s.count, s.size, s.out_blocks);
  const int rank = s.rank, size = s.size;
  Schedule exchange;
  exchange.round([=](Round& round) { round.add(copy(out(theirs[rank]), in(mine[rank]))); });
  exchange.rounds(rounds_for(size), [=](int k, Round& round) {
    for (int i = window * k + 1; i < std::min(window * (k + 1) + 1, size); ++i) {
      const int ahead = modulo(rank + i, size), behind = modulo(rank - i, size);
      round.add(send(ahead, in(mine[ahead])), recv(behind, out(theirs[behind])));
    }
  });
  return exchange;
}

/// The rounds count as messages between hosts, unless there is one host. Elements count on the links that they use.
Expense expense(const Shape& s) {
  using namespace expenses;
  const Hosts& hosts = hosts_of(s);
  const double others = hosts.largest() - 1, far = s.size - hosts.largest();
  Expense sum =
      at_once(across(hosts.largest()), far, far * number(s.count)) + at_once(inside, others, others * number(s.count));
  const bool is_one_host = hosts.count() == 1;
  for (Expense::Way* const way : {&sum.chain, &sum.stay})
    (is_one_host ? way->within : way->between).messages = rounds_for(s.size);
  return sum + here(number(s.count));
}

}  // namespace

extern const Algorithm alltoall_windowed{
    .kind = Kind::alltoall,
    .name = "windowed",
    .idea = "eight partners at a time: neither one message after another nor all at once, for large blocks",
    .plan = plan,
    .cost = [](const Shape& s) -> Cost {
      return {rounds_for(s.size), times(s.size - 1, s.count)};
    },
    .variable = true,
    .expense = expense,
    .alike = true,
};

}  // namespace tutti
