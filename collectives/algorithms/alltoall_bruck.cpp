// Bruck alltoall. Slot j of a rank holds a block that still has to move j ranks ahead. In round k the blocks of all
// slots with bit k set in j move 2^k ranks, packed into one message by a copy in runs; after the last round, slot j
// holds the block from the rank j behind. Blocks are sent several times, but in few messages.
//
//   rounds ceil(log2 p)     elements n times the set bits of 0 to p-1: about n (p/2) log2 p     scratch 2p n
//
// Bruck, Ho, Kipnis, Upfal & Weathersby, "Efficient algorithms for all-to-all communications in multiport
// message-passing systems", IEEE TPDS 1997.
#include <algorithm>
#include <cstdint>

#include "collectives/algorithms/expenses.hpp"
#include "collectives/algorithms/pieces.hpp"
#include "collectives/plan/algorithm.hpp"

namespace tutti {

std::size_t pieces::movers(int size, int place, int digit, int radix) {
  const std::int64_t step = std::int64_t{place} * radix, before = std::int64_t{place} * digit;
  return static_cast<std::size_t>(size / step * place + std::clamp<std::int64_t>(size % step - before, 0, place));
}

std::size_t pieces::all_movers(int size, int radix) {
  std::size_t slots = 0;
  for (std::int64_t place = 1; place < size; place *= radix)
    for (int digit = 1; digit < radix; ++digit) slots += movers(size, static_cast<int>(place), digit, radix);
  return slots;
}

namespace {

/// The rounds of one rank. Blocks have `count` elements. Scratch has first the slots, then the packed blocks.
struct Bruck {
  int rank, size;
  std::size_t count;

  Slice slots(int first, int n) const { return scratch({times(first, count), times(n, count)}); }

  /// Slot j gets block rank + j of `in`.
  void rotate(Round& round) const {
    const int wrap = size - rank;  // the slot of block 0
    round.add(copy(slots(0, wrap), in({times(rank, count), times(wrap, count)})),
              copy(slots(wrap, rank), in({0, times(rank, count)})));
  }
  void move(int bit, int part, Round& round) const {
    const std::size_t length = pieces::movers(size, bit, 1, 2) * count, run = times(bit, count);
    const Slice leaving = scratch({times(size, count), length});
    const Slice arriving = scratch({times(size, count) + length, length});
    const Slice moving = in_runs(scratch({run, length}), run, static_cast<std::ptrdiff_t>(2 * run));
    if (part == 0) round.add(copy(leaving, moving));
    if (part == 1) round.add(send(modulo(rank + bit, size), leaving), recv(modulo(rank - bit, size), arriving));
    if (part == 2) round.add(copy(moving, arriving));
  }
  /// Block rank - j of `out` gets slot j.
  void put_back(Round& round) const {
    const auto backwards = [&](int from, int n) {
      return in_runs(out({times(from, count), times(n, count)}), count, -static_cast<std::ptrdiff_t>(count));
    };
    const int wrap = rank + 1;  // the slot of the last block
    round.add(copy(backwards(rank, wrap), slots(0, wrap)),
              copy(backwards(size - 1, size - wrap), slots(wrap, size - wrap)));
  }
};

Schedule plan(const Shape& s) {
  const Bruck bruck{s.rank, s.size, s.count};
  Schedule plan;
  plan.use_scratch(times(2 * s.size, s.count));
  plan.round([=](Round& round) { bruck.rotate(round); });
  plan.rounds(3 * log2_ceil(s.size), [=](int k, Round& round) { bruck.move(1 << k / 3, k % 3, round); });
  plan.round([=](Round& round) { bruck.put_back(round); });
  return plan;
}

Cost cost(const Shape& s) { return {log2_ceil(s.size), pieces::all_movers(s.size, 2) * s.count}; }

}  // namespace

extern const Algorithm alltoall_bruck{
    .kind = Kind::alltoall,
    .name = "bruck",
    .idea = "blocks with bit k of their way to go travel 2^k ranks in one message: few rounds, for small blocks",
    .plan = plan,
    .cost = cost,
    .lanes = false,
    .expense =
        [](const Shape& s) {
          using namespace expenses;
          return exchange(flat(s), log2_ceil(s.size), log2_ceil(s.size) * (s.size / 2.0) * number(s.count),
                          (log2_ceil(s.size) + 2) * (s.size / 2.0) * number(s.count));
        },
    .alike = true,
};

}  // namespace tutti
