// Calls and their 64-bit summaries.
//
//   bits  63..60  59        58..55  54..51  50..36  35..0
//         kind    variable  dtype   op      root    count per block (all ones: that many, or more)
//
// A root that needs more than 15 bits takes bits 50..27, and the count takes bits 26..0. The kind's bits are then
// kind_count plus the index of the kind in `rooted`.
#include "tutti/collective.hpp"

#include <algorithm>
#include <array>

#include "transports/core/layout.hpp"

namespace tutti {
namespace {

constexpr std::array<std::string_view, kind_count> names = {
    "allreduce", "reduce",  "broadcast", "allgather", "reduce_scatter",
    "gather",    "scatter", "alltoall",  "barrier",   "send",
};

constexpr std::uint64_t variable_bit = std::uint64_t{1} << 59;
constexpr std::array rooted = {Kind::reduce, Kind::broadcast, Kind::gather, Kind::scatter};
static_assert(kind_count + rooted.size() <= 16);

/// How the 51 bits below the operation are divided.
struct Division {
  unsigned root_at;  // the lowest bit of the root; the count has the bits below
  std::uint64_t most_count() const noexcept { return (std::uint64_t{1} << root_at) - 1; }
  std::uint64_t most_root() const noexcept { return (std::uint64_t{1} << (51 - root_at)) - 1; }
};
constexpr Division narrow_root{36}, wide_root{27};

struct Parts {
  Kind kind;
  Division division;
  std::uint64_t count(std::uint64_t bits) const noexcept { return bits & division.most_count(); }
  std::uint64_t root(std::uint64_t bits) const noexcept { return bits >> division.root_at & division.most_root(); }
};

Parts parts_of(std::uint64_t bits) noexcept {
  const std::uint64_t number = bits >> 60;
  if (number >= kind_count && number < kind_count + rooted.size()) return {rooted[number - kind_count], wide_root};
  return {static_cast<Kind>(number), narrow_root};
}

struct Block {
  DType dtype = DType::i8;
  std::size_t count = 0;
};

// Dtype and count of a block of the buffer that all ranks have: of `out` if only the root sends, usually of `in`.
Block block_of(const Collective& call, std::size_t size) noexcept {
  switch (call.kind) {
    case Kind::allreduce:
    case Kind::reduce:
    case Kind::allgather:
    case Kind::gather: return {call.in.dtype, call.in.count};
    case Kind::broadcast:
    case Kind::reduce_scatter:
    case Kind::scatter: return {call.out.dtype, call.out.count};
    case Kind::alltoall: return {call.in.dtype, size > 0 ? call.in.count / size : 0};
    case Kind::barrier: return {};
    case Kind::send: break;
  }
  // The sender fills `in`, the receiver `out`. Either may be null if it has no elements.
  const bool sends = call.in.data != nullptr || call.in.count > 0;
  const bool receives = call.out.data != nullptr || call.out.count > 0;
  return sends || !receives ? Block{call.in.dtype, call.in.count} : Block{call.out.dtype, call.out.count};
}

}  // namespace

std::string_view name(Kind kind) noexcept {
  const auto index = static_cast<std::size_t>(kind);
  return index < names.size() ? names[index] : "unknown";
}

std::optional<Kind> parse_kind(std::string_view text) noexcept {
  const auto found = std::find(names.begin(), names.end(), text);
  if (found == names.end()) return std::nullopt;
  return static_cast<Kind>(found - names.begin());
}

std::size_t block_count(const Collective& call, int size) noexcept {
  return block_of(call, static_cast<std::size_t>(size)).count;
}

Signature signature(const Collective& call, int /*rank*/, int size) noexcept {
  const Block block = block_of(call, static_cast<std::size_t>(std::max(size, 0)));
  const std::uint64_t op = folds(call.kind) ? static_cast<std::uint64_t>(call.op.op) : 0;
  const std::uint64_t root = has_root(call.kind) ? static_cast<std::uint64_t>(call.root) : 0;
  const bool wide = root > narrow_root.most_root();
  const Division division = wide ? wide_root : narrow_root;
  auto number = static_cast<std::uint64_t>(call.kind);
  if (wide) number = kind_count + static_cast<std::uint64_t>(std::ranges::find(rooted, call.kind) - rooted.begin());
  const std::uint64_t count = call.variable ? 0 : std::min<std::uint64_t>(block.count, division.most_count());
  return {number << 60 | (call.variable ? variable_bit : 0) | static_cast<std::uint64_t>(block.dtype) << 55 | op << 51 |
          (root & division.most_root()) << division.root_at | count};
}

bool is_whole(Signature signature) noexcept {
  const std::uint64_t bits = signature.bits;
  const Parts parts = parts_of(bits);
  return bits != 0 && parts.count(bits) != parts.division.most_count() && (bits & variable_bit) == 0;
}

DType element_type(Signature signature) noexcept {
  const auto dtype = static_cast<int>(signature.bits >> 55 & 15);
  return signature.bits == 0 || dtype >= dtype_count ? DType::u8 : static_cast<DType>(dtype);
}

std::string describe(Signature signature) {
  const std::uint64_t bits = signature.bits;
  if (bits == 0) return "a collective";
  const Parts parts = parts_of(bits);
  const Kind kind = parts.kind;
  const bool variable = (bits & variable_bit) != 0;
  const auto dtype = static_cast<DType>(bits >> 55 & 15);
  const auto op = static_cast<Op>(bits >> 51 & 15);
  const std::uint64_t count = parts.count(bits);

  if (kind == Kind::barrier) return "barrier";
  std::string text(kind == Kind::send ? "send/recv" : name(kind));
  if (variable) text += 'v';
  text += '(';
  if (folds(kind)) text.append(name(op)).append(", ");
  if (has_root(kind)) text.append("root ").append(std::to_string(parts.root(bits))).append(", ");
  text += name(dtype);
  if (!variable)
    text.append(count == parts.division.most_count() ? ", count of at least " : ", count ")
        .append(std::to_string(count));
  return text += ')';
}

}  // namespace tutti
