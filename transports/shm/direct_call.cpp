#include "transports/shm/direct_call.hpp"

#include <algorithm>

namespace tutti::shm {

DirectCall::DirectCall(const Collective& collective, const Room& room)
    : kind(collective.kind),
      in(collective.in.data),
      out(collective.out.data),
      root(collective.root),
      rank(room.rank()),
      size(room.size()),
      count(block_count(collective, room.size())),
      width(size_of(collective.in.dtype)),
      fold{collective.in.dtype, collective.op.op, 1.0},
      divisor(collective.op.op == Op::avg ? room.size() : 1.0) {
  // About what all touch: what is in place counts twice, and a reduce's result once for every rank, which measured
  // better.
  const auto n = static_cast<std::size_t>(size);
  const std::size_t givers = kind == Kind::broadcast || kind == Kind::scatter ? 1 : n;
  const std::size_t takers = kind == Kind::gather ? 1 : n;
  if (givers * given_bytes() + takers * out_bytes() > cache_bytes()) write = Write::streaming;
}

Part share(std::size_t count, std::size_t width, int index, int size) noexcept {
  constexpr std::size_t line = 64;
  const std::size_t whole = std::max<std::size_t>(1, line / width);  // elements of a line
  const std::size_t lines = (count + whole - 1) / whole;
  const auto n = static_cast<std::size_t>(size), i = static_cast<std::size_t>(index);
  const auto begin = [&](std::size_t part) { return std::min(count, (lines * part / n) * whole); };
  return {begin(i), begin(i + 1) - begin(i)};
}

}  // namespace tutti::shm
