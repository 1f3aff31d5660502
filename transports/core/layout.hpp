// Layout: who gives and who takes which block of a collective; the table above Collective, as functions.
#pragma once

#include <cstddef>

#include "transports/core/collective.hpp"

namespace tutti {

/// Whether elements of several ranks are folded into one.
constexpr bool folds(Kind kind) noexcept {
  return kind == Kind::allreduce || kind == Kind::reduce || kind == Kind::reduce_scatter;
}

/// Whether the root alone gives, so that `in` is there alone (of broadcast: `out` there is what it gives).
constexpr bool only_root_gives(Kind kind) noexcept { return kind == Kind::broadcast || kind == Kind::scatter; }
/// Whether the root alone takes, so that `out` is there alone.
constexpr bool only_root_takes(Kind kind) noexcept { return kind == Kind::reduce || kind == Kind::gather; }
constexpr bool has_root(Kind kind) noexcept { return only_root_gives(kind) || only_root_takes(kind); }

/// Whether `in`, or `out`, has a block for every rank.
constexpr bool has_blocks_in(Kind kind) noexcept {
  return kind == Kind::reduce_scatter || kind == Kind::scatter || kind == Kind::alltoall;
}
constexpr bool has_blocks_out(Kind kind) noexcept {
  return kind == Kind::allgather || kind == Kind::gather || kind == Kind::alltoall;
}

/// Blocks of `in` and of `out` on a rank that has them, in a group of `size`.
constexpr std::size_t blocks_in(Kind kind, int size) noexcept {
  return has_blocks_in(kind) ? static_cast<std::size_t>(size) : 1;
}
constexpr std::size_t blocks_out(Kind kind, int size) noexcept {
  return has_blocks_out(kind) ? static_cast<std::size_t>(size) : 1;
}

/// Of the buffer that every rank has: `out` where the root alone gives, else `in`.
inline DType common_dtype(const Collective& call) noexcept {
  return only_root_gives(call.kind) ? call.out.dtype : call.in.dtype;
}
inline Device common_device(const Collective& call) noexcept {
  return only_root_gives(call.kind) ? call.out.device : call.in.device;
}

/// Whether blocks of `in` are overwritten before all ranks have read them.
inline bool overwrites_input(const Collective& call) noexcept {
  return call.kind == Kind::alltoall && call.in.data == call.out.data && call.in.count > 0;
}

}  // namespace tutti
