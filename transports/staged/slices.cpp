#include "transports/staged/slices.hpp"

#include <algorithm>
#include <numeric>

#include "transports/core/layout.hpp"

namespace tutti::staged {
namespace {

bool is_rooted_elsewhere(const Collective& call, std::size_t rank) noexcept {
  return static_cast<std::size_t>(call.root) != rank;
}

bool has_blocks(Kind kind, bool of_in) noexcept { return of_in ? has_blocks_in(kind) : has_blocks_out(kind); }

}  // namespace

// The number of blocks of `in` or of `out`; 0 if this rank has no such buffer.
std::size_t Slicing::blocks(bool of_in) const noexcept {
  const bool elsewhere = is_rooted_elsewhere(call_, rank_);
  switch (call_.kind) {
    case Kind::barrier: return 0;
    case Kind::broadcast: return of_in == elsewhere ? 0 : 1;
    case Kind::reduce: return !of_in && elsewhere ? 0 : 1;
    case Kind::gather: return of_in ? 1 : (elsewhere ? 0 : size_);
    case Kind::scatter: return of_in ? (elsewhere ? 0 : size_) : 1;
    default: return has_blocks(call_.kind, of_in) ? size_ : 1;
  }
}

std::size_t Slicing::whole(bool of_in, std::size_t block) const noexcept {
  const bool many = has_blocks(call_.kind, of_in);
  if (call_.variable && many) return (of_in ? call_.in_counts : call_.out_counts)[block];
  const std::size_t count = of_in && call_.kind != Kind::broadcast ? call_.in.count : call_.out.count;
  return many ? count / size_ : count;
}

Slicing::Slicing(const Collective& call, int rank, int size, std::size_t slot_bytes, std::size_t largest)
    : call_(call), rank_(static_cast<std::size_t>(rank)), size_(static_cast<std::size_t>(size)) {
  if (call.kind == Kind::barrier) return;
  const bool many = has_blocks(call.kind, true) || has_blocks(call.kind, false);
  const std::size_t width = size_of(call.out.dtype);
  each_ = std::max<std::size_t>(slot_bytes / width / (many ? size_ : 1), 1);
  std::size_t most = block_count(call, size);
  if (has_own_counts(call)) {
    most = largest;
  } else if (call.variable) {
    const auto& counts = has_blocks(call.kind, true) ? call.in_counts : call.out_counts;
    most = *std::max_element(counts.begin(), counts.end());
  }
  slices_ = std::max<std::size_t>((most + each_ - 1) / each_, 1);
}

std::vector<std::size_t> Slicing::cut(bool of_in, std::size_t number, std::vector<Piece>& pieces) const {
  const std::size_t width = size_of(call_.out.dtype), from = number * each_;
  std::vector<std::size_t> counts;
  std::size_t device = 0, host = 0;
  for (std::size_t block = 0; block < blocks(of_in); ++block) {
    const std::size_t all = whole(of_in, block), start = std::min(from, all);
    const std::size_t count = std::min(each_, all - start);
    if (count > 0) pieces.push_back({(device + start) * width, host * width, count * width});
    counts.push_back(count);
    device += all;
    host += count;
  }
  return counts;
}

Slice Slicing::slice(std::size_t number) const {
  Slice made;
  made.call.kind = call_.kind;
  made.call.op = call_.op;
  made.call.root = call_.root;
  made.call.variable = call_.variable;
  const std::vector<std::size_t> in = cut(true, number, made.in), out = cut(false, number, made.out);
  const auto total = [](const auto& counts) { return std::accumulate(counts.begin(), counts.end(), std::size_t{0}); };
  made.call.in = ConstBuffer(nullptr, total(in), call_.out.dtype);
  made.call.out = Buffer(nullptr, total(out), call_.out.dtype);
  if (call_.kind == Kind::broadcast) {  // its one buffer is input at the root and output elsewhere
    made.call.out.count = std::max(total(in), total(out));
    made.call.in.count = 0;
  }
  made.in_place = call_.kind == Kind::broadcast || call_.kind == Kind::allreduce || call_.kind == Kind::reduce;
  if (!call_.variable) return made;
  // The counts of all ranks, also if this rank has no such buffer.
  const auto of_all = [&](const std::vector<std::size_t>& whole_counts) {
    std::vector<std::size_t> counts;
    for (const std::size_t all : whole_counts) counts.push_back(std::min(each_, all - std::min(number * each_, all)));
    return counts;
  };
  made.call.in_counts = of_all(call_.in_counts);
  made.call.out_counts = of_all(call_.out_counts);
  return made;
}

}  // namespace tutti::staged
