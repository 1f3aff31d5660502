// Layout: which ranks send and receive which blocks of a collective; the table of struct Collective as functions.
#pragma once

#include <cstddef>

#include "tutti/collective.hpp"

namespace tutti {

/// True if the kind reduces elements of several ranks.
constexpr bool folds(Kind kind) noexcept {
  return kind == Kind::allreduce || kind == Kind::reduce || kind == Kind::reduce_scatter;
}

/// True if only the root sends, so that `in` is used only there (for broadcast, the root sends its `out`).
constexpr bool only_root_gives(Kind kind) noexcept { return kind == Kind::broadcast || kind == Kind::scatter; }
/// True if only the root receives, so that `out` is used only there.
constexpr bool only_root_takes(Kind kind) noexcept { return kind == Kind::reduce || kind == Kind::gather; }
constexpr bool has_root(Kind kind) noexcept { return only_root_gives(kind) || only_root_takes(kind); }

/// has_blocks_in(): true if `in` has one block per rank. has_blocks_out(): true if `out` has.
constexpr bool has_blocks_in(Kind kind) noexcept {
  return kind == Kind::reduce_scatter || kind == Kind::scatter || kind == Kind::alltoall;
}
constexpr bool has_blocks_out(Kind kind) noexcept {
  return kind == Kind::allgather || kind == Kind::gather || kind == Kind::alltoall;
}

/// The number of blocks in `in` and in `out`, on a rank that has the buffer, in a group of `size` ranks.
constexpr std::size_t blocks_in(Kind kind, int size) noexcept {
  return has_blocks_in(kind) ? static_cast<std::size_t>(size) : 1;
}
constexpr std::size_t blocks_out(Kind kind, int size) noexcept {
  return has_blocks_out(kind) ? static_cast<std::size_t>(size) : 1;
}

/// The dtype of the buffer that every rank has: `out` if only the root sends, else `in`.
inline DType common_dtype(const Collective& call) noexcept {
  return only_root_gives(call.kind) ? call.out.dtype : call.in.dtype;
}
inline Device common_device(const Collective& call) noexcept {
  return only_root_gives(call.kind) ? call.out.device : call.in.device;
}

/// The device of the call's buffers, of which one may be missing on this rank.
inline const Device& device_of(const Collective& call) noexcept {
  return call.out.device.kind != Device::Kind::cpu ? call.out.device : call.in.device;
}

/// True if the call overwrites blocks of `in` before all ranks have read them.
inline bool overwrites_input(const Collective& call) noexcept {
  return call.kind == Kind::alltoall && call.in.data == call.out.data && call.in.count > 0;
}

}  // namespace tutti
