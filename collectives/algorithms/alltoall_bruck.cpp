// Bruck alltoall. Slot j of a rank holds a block that still has to move j ranks ahead. In round k the blocks of all
// slots with bit k set in j move 2^k ranks, packed into one message by a copy in runs; after the last round, slot j
// holds the block from the rank j behind. Blocks are sent several times, but in few messages.
//
//   rounds ceil(log2 p)     elements n times the bits in 0 .. p-1: about n (p/2) log2 p     scratch 2p n
//
// Bruck, Ho, Kipnis, Upfal & Weathersby, "Efficient algorithms for all-to-all communications in multiport
// message-passing systems", IEEE TPDS 1997.
#include "collectives/plan/algorithm.hpp"
#include "collectives/plan/geometry.hpp"

namespace tutti {
namespace {

/// The number of slots j in [0, size) with this bit set, which are sent in its round.
std::size_t movers(int size, int bit) {
  return static_cast<std::size_t>(size / (2 * bit) * bit + std::max(0, size % (2 * bit) - bit));
}

/// The rounds of one rank. Blocks have `count` elements; slots are in scratch, behind them the packed blocks.
struct Bruck {
  int rank, size;
  std::size_t count;

  Slice slots(int first, int n) const { return scratch({times(first, count), times(n, count)}); }

  /// slot j = block rank + j of `in`
  void rotate(Round& round) const {
    const int wrap = size - rank;  // the slot of block 0
    round.add(copy(slots(0, wrap), in({times(rank, count), times(wrap, count)})),
              copy(slots(wrap, rank), in({0, times(rank, count)})));
  }
  void move(int bit, int part, Round& round) const {
    const std::size_t length = movers(size, bit) * count, run = times(bit, count);
    const Slice leaving = scratch({times(size, count), length});
    const Slice arriving = scratch({times(size, count) + length, length});
    const Slice moving = in_runs(scratch({run, length}), run, static_cast<std::ptrdiff_t>(2 * run));
    if (part == 0) round.add(copy(leaving, moving));
    if (part == 1) round.add(send(modulo(rank + bit, size), leaving), recv(modulo(rank - bit, size), arriving));
    if (part == 2) round.add(copy(moving, arriving));
  }
  /// block rank - j of `out` = slot j
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

Cost cost(const Shape& s) {
  std::size_t blocks = 0;
  for (int bit = 1; bit < s.size; bit *= 2) blocks += movers(s.size, bit);
  return {log2_ceil(s.size), blocks * s.count};
}

}  // namespace

extern const Algorithm alltoall_bruck{
    .kind = Kind::alltoall,
    .name = "bruck",
    .idea = "blocks with bit k of their way to go travel 2^k ranks in one message: few rounds, for small blocks",
    .plan = plan,
    .cost = cost,
    .lanes = false,
};

}  // namespace tutti
