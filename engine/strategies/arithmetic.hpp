// The arithmetic of rules that are written once for elements and for tensors.
#pragma once

#include <cmath>

namespace tutti::engine {

/// Of float and double. Every operation rounds once, so that bits do not depend on the processor.
template <class Value>
struct Arithmetic {
  static Value scaled(double a, Value x) noexcept { return static_cast<Value>(a) * x; }
  /// a x + y
  static Value fused(double a, Value x, Value y) noexcept { return std::fma(static_cast<Value>(a), x, y); }
  static Value squared(double a, Value x, Value y) noexcept { return std::fma(static_cast<Value>(a) * x, x, y); }
  static Value root(Value x) noexcept { return std::sqrt(x); }
  static Value plus(Value x, double a) noexcept { return x + static_cast<Value>(a); }
  static Value over(Value x, double a) noexcept { return x / static_cast<Value>(a); }
  static Value zero(Value) noexcept { return 0; }
};

}  // namespace tutti::engine
