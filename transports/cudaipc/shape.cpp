#include "transports/cudaipc/shape.hpp"

#include <algorithm>
#include <cstdint>

#include "transports/core/layout.hpp"

namespace tutti::cudaipc {
namespace {

std::vector<std::size_t> begins(const std::vector<std::size_t>& bytes) {
  std::vector<std::size_t> at;
  std::size_t before = 0;
  for (const std::size_t one : bytes) {
    at.push_back(before);
    before += one;
  }
  return at;
}

std::vector<std::size_t> blocks(const Collective& call, const std::vector<std::size_t>& counts, std::size_t each,
                                const Part& part) {
  std::vector<std::size_t> bytes = call.variable ? counts : std::vector(part.size, each);
  for (std::size_t& one : bytes) one *= part.width;
  return bytes;
}

}  // namespace

Part part_of(const Collective& call, int rank, int size) {
  Part part;
  part.rank = static_cast<std::size_t>(rank);
  part.size = static_cast<std::size_t>(size);
  part.width = size_of(common_dtype(call));
  const std::vector<std::size_t> none(part.size, 0);
  part.shown = part.shown_at = part.read = part.read_into = none;
  const auto root = static_cast<std::size_t>(call.root);
  const bool at_root = part.rank == root;
  const std::size_t in = call.in.count * part.width, out = call.out.count * part.width;
  switch (call.kind) {
    case Kind::allreduce:
      part.folds = true;
      part.shown = part.read = std::vector(part.size, in);
      break;
    case Kind::reduce:
      part.folds = true;
      part.keeps = at_root;
      part.shown[root] = in;
      if (at_root) part.read = std::vector(part.size, in);
      break;
    case Kind::broadcast:
      part.keeps = !at_root;
      if (at_root) part.shown = std::vector(part.size, out);
      part.read[root] = at_root ? 0 : out;
      break;
    case Kind::allgather:
    case Kind::gather:
      part.keeps = call.kind == Kind::allgather || at_root;
      if (call.kind == Kind::allgather) part.shown = std::vector(part.size, in);
      part.shown[root] = in;
      if (!part.keeps) break;
      part.read = blocks(call, call.out_counts, call.in.count, part);
      part.read_into = begins(part.read);
      break;
    case Kind::reduce_scatter:
      part.folds = true;
      part.shown = blocks(call, call.in_counts, call.out.count, part);
      part.shown_at = begins(part.shown);
      part.read = std::vector(part.size, out);
      break;
    case Kind::scatter:
      if (at_root) part.shown = blocks(call, call.in_counts, call.out.count, part);
      part.shown_at = begins(part.shown);
      part.read[root] = out;
      break;
    case Kind::alltoall:
      part.shown = blocks(call, call.in_counts, call.in.count / part.size, part);
      part.shown_at = begins(part.shown);
      part.read = blocks(call, call.out_counts, call.out.count / part.size, part);
      part.read_into = begins(part.read);
      break;
    default: break;
  }
  part.largest = *std::ranges::max_element(part.shown);
  return part;
}

std::size_t common_bytes(const Collective& call, int size) {
  return call.variable ? SIZE_MAX : block_count(call, size) * size_of(common_dtype(call));
}

Range even_part(std::size_t bytes, std::size_t parts, std::size_t index) {
  constexpr std::size_t grain = 256;
  const std::size_t each = (bytes / parts + grain - 1) / grain * grain;
  return {std::min(bytes, each * index), index + 1 == parts ? bytes : std::min(bytes, each * (index + 1))};
}

}  // namespace tutti::cudaipc
