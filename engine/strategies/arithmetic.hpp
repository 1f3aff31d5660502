// The arithmetic of rules that are written once for elements and for tensors.
#pragma once

#include <cmath>

namespace tutti::engine {

/// The arithmetic of float and double. The results are bitwise the same on every processor if the compiler does not
/// fuse products and sums, so sources whose loops use it are compiled with -ffp-contract=off (engine/CMakeLists.txt).
template <class Value>
struct Arithmetic {
  static Value scaled(double a, Value x) noexcept { return static_cast<Value>(a) * x; }
  /// a x + y, rounded once
  static Value fused(double a, Value x, Value y) noexcept { return std::fma(static_cast<Value>(a), x, y); }
  /// a x^2 + y, rounded after a x and at the end
  static Value fused_square(double a, Value x, Value y) noexcept { return std::fma(static_cast<Value>(a) * x, x, y); }
  static Value sqrt(Value x) noexcept { return std::sqrt(x); }
  static Value add(Value x, double a) noexcept { return x + static_cast<Value>(a); }
  static Value divide(Value x, double a) noexcept { return x / static_cast<Value>(a); }
  static Value zero(Value) noexcept { return 0; }
};

}  // namespace tutti::engine
