// Layout: the positions of one rank's buffers in a simulated collective, in place or not.
#pragma once

#include <algorithm>
#include <cstddef>
#include <optional>

#include "collectives/plan/geometry.hpp"
#include "tests/support/simulator.hpp"

namespace tutti::testing {

/// Positions [begin, end) in a rank's memory, which has all of its buffers.
struct Region {
  std::size_t begin = 0, end = 0;
  std::size_t count() const { return end - begin; }
  bool meets(const Region& other) const { return begin < other.end && other.begin < end; }
  bool operator==(const Region&) const = default;
};

/// The regions of `in`, `out` and scratch of one rank, and the blocks of buffers that have blocks.
struct Layout {
  Region in, out, scratch;
  std::optional<Blocks> in_blocks, out_blocks;
  const Region& of(Memory memory) const { return memory == Memory::in ? in : memory == Memory::out ? out : scratch; }
};

inline Layout layout_of(const Trial& t, const Shape& s, std::size_t scratch) {
  const Blocks ins(t.count, t.size, s.in_blocks), outs(t.count, t.size, s.out_blocks);
  const bool is_root = s.rank == t.root, in_place = (t.in_place >> s.rank & 1) != 0;
  Layout l;
  std::size_t in_count = t.count, out_count = t.count, in_shift = 0, out_shift = 0;
  switch (t.kind) {
    case Kind::reduce: out_count = is_root ? t.count : 0; break;
    case Kind::broadcast: in_count = 0; break;
    case Kind::allgather:
    case Kind::gather:
      in_count = outs[s.rank].count;
      in_shift = outs[s.rank].offset;
      out_count = t.kind == Kind::allgather || is_root ? outs.total() : 0;
      l.out_blocks = outs;
      break;
    case Kind::reduce_scatter:
    case Kind::scatter:
      in_count = t.kind == Kind::reduce_scatter || is_root ? ins.total() : 0;
      out_count = ins[s.rank].count;
      out_shift = ins[s.rank].offset;
      l.in_blocks = ins;
      break;
    case Kind::alltoall:
      in_count = ins.total();
      out_count = outs.total();
      l.in_blocks = ins;
      l.out_blocks = outs;
      break;
    case Kind::barrier: in_count = out_count = 0; break;
    default: break;
  }
  if (!in_place || in_count == 0 || out_count == 0) in_shift = out_shift = 0;
  l.in = {in_shift, in_shift + in_count};
  const std::size_t out_begin = in_place ? out_shift : l.in.end;
  l.out = {out_begin, out_begin + out_count};
  const std::size_t end = std::max(l.in.end, l.out.end);
  l.scratch = {end, end + scratch};
  return l;
}

}  // namespace tutti::testing
