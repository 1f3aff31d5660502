// Names of element types.
#include "tutti/dtype.hpp"

#include <algorithm>
#include <array>

namespace tutti {
namespace {

constexpr std::array<std::string_view, dtype_count> names = {"i8",   "u8",  "i16", "i32", "i64", "f16",
                                                             "bf16", "f32", "f64", "u16", "u32", "u64"};

}  // namespace

std::string_view name(DType dtype) noexcept {
  const auto index = static_cast<std::size_t>(dtype);
  return index < names.size() ? names[index] : "unknown";
}

std::optional<DType> parse_dtype(std::string_view text) noexcept {
  const auto found = std::find(names.begin(), names.end(), text);
  if (found == names.end()) return std::nullopt;
  return static_cast<DType>(found - names.begin());
}

}  // namespace tutti
