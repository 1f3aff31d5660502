// Recursive halving and doubling (Rabenseifner's allreduce). For each bit of the rank, highest first, two ranks split
// the range that they share: each sends one half and folds the other (reduce-scatter). Then, lowest bit first, they
// exchange what they have until all ranks have everything (allgather). k is the largest power of two at most p. For
// k < p, rank k+j first sends its data to rank j, which folds it, and receives the result from rank j at the end.
//
//   rounds 2 log2 k, and 2 more if k < p     elements about 2n(k-1)/k, and n more if k < p     scratch none
//   (exactly: rank 0 sends n to split and to send chunk 0, then chunks 0 to 2^j - 1 for each j, 0 < j < log2 k)
//
// Rabenseifner, "Optimization of collective reduction operations", ICCS 2004.
#include "collectives/algorithms/expenses.hpp"
#include "collectives/algorithms/pieces.hpp"
#include "collectives/plan/algorithm.hpp"

namespace tutti {
namespace {

/// For powers of two. After the first half of the rounds, rank r has the complete chunk r.
Schedule core(const Shape& s) {
  const Chunks chunk(s.count, s.size);
  const int rank = s.rank, size = s.size;
  Schedule halving;
  halving.rounds(log2_floor(size), [=](int k, Round& round) {
    const int half = size >> (k + 1), peer = rank ^ half;
    const int first = rank & ~(2 * half - 1);  // first chunk that this rank still shares with others
    const bool is_lower = rank < peer;
    const Range lower = chunk.run(first, half), upper = chunk.run(first + half, half);
    const Range kept = is_lower ? lower : upper, given = is_lower ? upper : lower;
    const auto source = k == 0 ? in : out;
    round.add(send(peer, source(given)), last(recv_reduce(peer, out(kept), source(kept)), half == 1));
  });
  halving.rounds(log2_floor(size), [=](int k, Round& round) {
    const int span = 1 << k, mine = rank & ~(span - 1), peer = rank ^ span;
    round.add(send(peer, out(chunk.run(mine, span))), recv(peer, out(chunk.run(mine ^ span, span))));
  });
  return halving;
}

Schedule plan(const Shape& s) { return pieces::fold_extra_ranks(s, power_of_two_below(s.size), core); }

Cost cost(const Shape& s) {
  const int k = power_of_two_below(s.size);
  const bool has_extra = k < s.size;
  std::size_t elements = has_extra ? 2 * s.count : s.count;
  for (int span = 2; span < k; span *= 2) elements += Chunks(s.count, k).run(0, span).count;
  return {2 * log2_floor(k) + (has_extra ? 2 : 0), elements};
}

}  // namespace

extern const Algorithm allreduce_halving_doubling{
    .kind = Kind::allreduce,
    .name = "halving_doubling",
    .idea = "split across each bit of the rank, then put together: little data in few rounds, for medium buffers",
    .plan = plan,
    .cost = cost,
    .parts = [](const Shape& s) { return s.size; },
    .expense =
        [](const Shape& s) {
          using namespace expenses;
          return halving_doubling(flat(s), s.size, number(s.count));
        },
};

}  // namespace tutti
