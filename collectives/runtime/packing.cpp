#include "collectives/runtime/packing.hpp"

#include <algorithm>
#include <cstring>

#include "transports/core/layout.hpp"

namespace tutti {
namespace {

bool can_be_packed(const Collective& call) noexcept {
  const bool on_host = call.in.device.kind == Device::Kind::cpu && call.out.device.kind == Device::Kind::cpu;
  const bool moves = call.kind != Kind::barrier && call.kind != Kind::send;
  return on_host && moves && !call.variable && !(folds(call.kind) && call.op.op == Op::premul_sum);
}

bool are_alike(const Collective& a, const Collective& b) noexcept {
  return a.kind == b.kind && a.in.dtype == b.in.dtype && a.root == b.root && (!folds(a.kind) || a.op.op == b.op.op);
}

std::size_t bytes_of(const Collective& call, int size) noexcept {
  return block_count(call, size) * size_of(call.in.dtype) *
         std::max(blocks_in(call.kind, size), blocks_out(call.kind, size));
}

}  // namespace

std::size_t packed_together(std::span<const Collective> calls, int size, std::size_t most_bytes) noexcept {
  std::size_t count = 0, bytes = 0;
  for (const Collective& call : calls) {
    if (!can_be_packed(call) || !are_alike(call, calls.front())) break;
    bytes += bytes_of(call, size);
    if (bytes > most_bytes) break;
    ++count;
  }
  return std::max<std::size_t>(count, 1);
}

Packing::Packing(std::span<const Collective> calls, const Group& group) {
  const Collective& first = calls.front();
  const bool at_root = group.rank == first.root;
  const bool spreads = first.kind == Kind::broadcast;
  const bool one_buffer = spreads || first.kind == Kind::allreduce || first.kind == Kind::reduce;
  const bool has_in = at_root || !only_root_gives(first.kind);
  const bool has_out = only_root_takes(first.kind) ? at_root : !spreads || !at_root;
  in_blocks_ = blocks_in(first.kind, group.size());
  out_blocks_ = blocks_out(first.kind, group.size());
  std::size_t in_count = 0, out_count = 0;
  for (const Collective& one : calls) {
    auto* const from = spreads ? one.out.data : const_cast<std::byte*>(one.in.data);  // const_cast: input is only read
    if (has_in) in_.push_back({from, (spreads ? one.out.bytes() : one.in.bytes()) / in_blocks_});
    if (has_out) out_.push_back({one.out.data, one.out.bytes() / out_blocks_});
    in_count += one.in.count;
    out_count += one.out.count;
  }
  const std::size_t width = size_of(first.in.dtype), in_bytes = one_buffer ? 0 : in_count * width;
  memory_.resize(in_bytes + (first.kind == Kind::reduce ? in_count : out_count) * width);
  call_.kind = first.kind;
  call_.op = first.op;
  call_.root = first.root;
  call_.in = ConstBuffer(in_count > 0 ? memory_.data() : nullptr, in_count, first.in.dtype);
  call_.out = Buffer(out_count > 0 ? memory_.data() + in_bytes : nullptr, out_count, first.in.dtype);
  copy(in_, in_blocks_, memory_.data(), Way::in);
}

void Packing::unpack() { copy(out_, out_blocks_, call_.out.data, Way::out); }

void Packing::copy(const std::vector<Piece>& pieces, std::size_t blocks, std::byte* packed, Way way) const {
  for (std::size_t block = 0; block < blocks; ++block)
    for (const Piece& piece : pieces) {
      if (piece.bytes == 0) continue;
      std::byte* const own = piece.data + block * piece.bytes;
      way == Way::in ? std::memcpy(packed, own, piece.bytes) : std::memcpy(own, packed, piece.bytes);
      packed += piece.bytes;
    }
}

}  // namespace tutti
