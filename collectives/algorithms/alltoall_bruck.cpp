// Bruck alltoall. Slot j of a rank holds a block that still has to move j ranks ahead. In round k the blocks of all
// slots with bit k set in j move 2^k ranks, packed into one message; after the last round, slot j holds the block
// from the rank j behind. Blocks are sent several times, but in few messages.
//
//   rounds ceil(log2 p)     elements n times the bits in 0 .. p-1: about n (p/2) log2 p     scratch 2p n
//
// Bruck, Ho, Kipnis, Upfal & Weathersby, "Efficient algorithms for all-to-all communications in multiport
// message-passing systems", IEEE TPDS 1997.
#include "collectives/plan/algorithm.hpp"
#include "collectives/plan/geometry.hpp"

namespace tutti {
namespace {

/// The slots j in [0, size) that are sent in the round of `bit`.
std::vector<int> movers(int size, int bit) {
  std::vector<int> slots;
  for (int j = 0; j < size; ++j)
    if ((j & bit) != 0) slots.push_back(j);
  return slots;
}

Schedule plan(const Shape& s) {
  const Blocks block(s.count, s.size);
  const auto slot = [&](int j) { return scratch(block[j]); };
  const auto cell = [&](int i) { return scratch({block.total() + block[i].offset, s.count}); };  // the packed blocks
  Schedule bruck;
  bruck.use_scratch(2 * block.total());
  std::vector<Step> rotate, put_back;
  for (int j = 0; j < s.size; ++j) rotate.push_back(copy(slot(j), in(block[s.rank + j])));
  bruck.round(std::move(rotate));
  for (int bit = 1; bit < s.size; bit *= 2) {
    const std::vector<int> moving = movers(s.size, bit);
    const auto n = static_cast<int>(moving.size());
    std::vector<Step> pack, unpack;
    for (int i = 0; i < n; ++i) {
      pack.push_back(copy(cell(i), slot(moving[static_cast<std::size_t>(i)])));
      unpack.push_back(copy(slot(moving[static_cast<std::size_t>(i)]), cell(n + i)));
    }
    const std::size_t length = static_cast<std::size_t>(n) * s.count;
    bruck.round(std::move(pack));
    bruck.round({send(modulo(s.rank + bit, s.size), scratch({cell(0).offset, length})),
                 recv(modulo(s.rank - bit, s.size), scratch({cell(0).offset + length, length}))});
    bruck.round(std::move(unpack));
  }
  for (int j = 0; j < s.size; ++j) put_back.push_back(copy(out(block[s.rank - j]), slot(j)));
  bruck.round(std::move(put_back));
  return bruck;
}

Cost cost(const Shape& s) {
  std::size_t blocks = 0;
  for (int bit = 1; bit < s.size; bit *= 2) blocks += movers(s.size, bit).size();
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
