// Names of reduction operators and the element types that they support.
#include <algorithm>
#include <array>

#include "tutti/reduce.hpp"

namespace tutti {
namespace {

constexpr std::array<std::string_view, op_count> names = {"sum",  "avg", "prod", "min",       "max",
                                                          "band", "bor", "bxor", "premul_sum"};

}  // namespace

std::string_view name(Op op) noexcept {
  const auto index = static_cast<std::size_t>(op);
  return index < names.size() ? names[index] : "unknown";
}

std::optional<Op> parse_op(std::string_view text) noexcept {
  const auto found = std::find(names.begin(), names.end(), text);
  if (found == names.end()) return std::nullopt;
  return static_cast<Op>(found - names.begin());
}

bool supports(Op op, DType dtype) noexcept {
  switch (op) {
    case Op::sum:
    case Op::prod:
    case Op::min:
    case Op::max: return true;
    case Op::band:
    case Op::bor:
    case Op::bxor: return is_integer(dtype);
    case Op::avg:
    case Op::premul_sum: return !is_integer(dtype);
  }
  return false;
}

}  // namespace tutti
