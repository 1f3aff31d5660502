// Collective: the arguments of one collective call, and Signature: their 64-bit summary, sent with every message.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "tutti/buffer.hpp"
#include "tutti/reduce.hpp"

namespace tutti {

/// Source rank of a receive that accepts a message from any rank (MPI_ANY_SOURCE).
inline constexpr int any_rank = -1;

enum class Kind : std::uint8_t {
  allreduce,
  reduce,
  broadcast,
  allgather,
  reduce_scatter,
  gather,
  scatter,
  alltoall,
  barrier,
  send,  ///< point-to-point; send and recv are one kind, so that their signatures agree
};
inline constexpr int kind_count = 10;

std::string_view name(Kind kind) noexcept;
std::optional<Kind> parse_kind(std::string_view text) noexcept;

/// The arguments of one call on one rank. Buffers are borrowed. `count` below is a number of elements.
///
///   kind            in                 out                 root
///   allreduce       count              count
///   reduce          count              count at root       yes
///   broadcast       (is out)           count               yes
///   allgather       count              size * count
///   reduce_scatter  size * count       count
///   gather          count              size * count, root  yes
///   scatter         size * count, root count               yes
///   alltoall        size * count       size * count
///   barrier         -                  -
///
/// The v-forms set `variable` and the elements per rank: `in_counts` are the sizes of the blocks of
/// `in` (reduce_scatter, scatter, alltoall), `out_counts` those of the blocks of `out` (allgather,
/// gather, alltoall). Blocks are contiguous, in rank order. A call is in place if in.data == out.data;
/// an allgather or gather, if `in` is this rank's block of `out`; a reduce_scatter or scatter, if
/// `out` is this rank's block of `in`.
struct Collective {
  Kind kind = Kind::barrier;
  ConstBuffer in;
  Buffer out;
  Reduction op;
  int root = 0;
  bool variable = false;
  std::vector<std::size_t> in_counts = {};
  std::vector<std::size_t> out_counts = {};
  // Kind::send only: `in` is sent to rank `to`, `out` is received from rank `from`; -1 omits that half.
  int to = -1, from = -1;
  int tag = 0;
  bool from_any = false;  ///< receives `out` from any rank; `from` is ignored
};

/// Elements per block if the kind has one block per rank, else all elements. For v-forms, the elements of this rank's
/// block.
std::size_t block_count(const Collective& call, int size) noexcept;

/// The arguments that all ranks of a call must agree on, packed into 64 bits: kind, dtype, op, root and, except for
/// v-forms, the count per block (clipped to 36 bits).
struct Signature {
  std::uint64_t bits = 0;
  bool operator==(const Signature&) const = default;
};

/// True if the signature determines the whole call except for its buffers. False for v-forms, for clipped counts, and
/// for the empty signature, whose bits are 0.
bool is_whole(Signature signature) noexcept;

/// The signature of `call` as made by `rank` in a group of `size` ranks.
Signature signature(const Collective& call, int rank, int size) noexcept;

/// The element type in a signature; u8 if the signature is empty.
DType element_type(Signature signature) noexcept;

/// "allreduce(sum, f32, count 1024)", "broadcast(root 2, i8, count 7)", "alltoallv(f32)"; never empty.
std::string describe(Signature signature);

}  // namespace tutti
