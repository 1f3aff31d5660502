// Selects the kernel table for the processor, once, and runs reductions and scaling with it.
#include "tutti/reduce.hpp"

#include <array>
#include <string>

#include "transports/core/copy.hpp"
#include "transports/core/reduce_table.hpp"
#include "tutti/status.hpp"

namespace tutti {
namespace detail {
namespace {

struct Found {
  std::array<FoldIsa, 3> isas{};
  std::size_t count = 0;
  void add(std::string_view name, const FoldTable* table) noexcept {
    if (table) isas[count++] = {name, table};
  }
};

Found look() noexcept {
  Found found;
#if defined(__x86_64__) || defined(__i386__)
  if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512dq") &&
      __builtin_cpu_supports("avx512vl")) {
    found.add("avx512", avx512_folds());
  }
  if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("f16c")) found.add("avx2", avx2_folds());
#endif
  found.add("baseline", baseline_folds());
  return found;
}

}  // namespace

std::span<const FoldIsa> fold_isas() noexcept {
  static const Found found = look();
  return {found.isas.data(), found.count};
}

}  // namespace detail

namespace {

[[noreturn]] void refuse(Op op, DType dtype) {
  throw Error(Code::invalid, std::string(name(op)) + " has no meaning for " + std::string(name(dtype)) +
                                 "; use sum, prod, min or max, or another element type.");
}

}  // namespace

void Fold::operator()(std::byte* into, const std::byte* with, const std::byte* received, std::size_t bytes) const {
  const auto kernel =
      detail::fold_isas().front().table->fold[static_cast<std::size_t>(dtype)][static_cast<std::size_t>(op)];
  if (!kernel) refuse(op, dtype);
  kernel(into, with, received, bytes, divisor);
}

void Fold::of(std::byte* into, std::span<const std::byte* const> sources, std::size_t bytes, Write write) const {
  const auto kernel =
      detail::fold_isas().front().table->fold_many[static_cast<std::size_t>(dtype)][static_cast<std::size_t>(op)];
  if (!kernel) refuse(op, dtype);
  if (bytes == 0 || sources.empty()) return;
  if (sources.size() == 1) {
    if (sources[0] == into) return;
    if (write == Write::streaming) return copy_streaming(into, sources[0], bytes);
    return copy(into, sources[0], bytes);
  }
  kernel({into, sources.data(), sources.size(), bytes, divisor, write});
}

void scale(DType dtype, std::byte* into, const std::byte* from, std::size_t bytes, double factor) {
  const auto kernel = detail::fold_isas().front().table->scale[static_cast<std::size_t>(dtype)];
  if (!kernel) {
    throw Error(Code::invalid, "elements of " + std::string(name(dtype)) +
                                   " cannot be multiplied by a factor; premul_sum and avg want floating point.");
  }
  kernel(into, from, bytes, factor);
}

std::string_view fold_isa() noexcept { return detail::fold_isas().front().name; }

}  // namespace tutti
