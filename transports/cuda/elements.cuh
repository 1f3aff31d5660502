// Element types and operators of the fold kernels: the same bits as the folds of the host
// (transports/core/reduce_elements).
//
// f16 and bf16 are folded in float and rounded once, after the last source. A NaN result is always the positive quiet
// NaN. For min and max, -0 is less than +0. Integers wrap around. Every operation is rounded as IEEE 754 requires: no
// contraction to fused multiply-add, no reciprocals.
#pragma once

#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include <cstdint>

namespace tutti::cuda {

// ---- what an element is computed in

template <class T>
struct Computed {
  using type = T;
};
template <>
struct Computed<__half> {
  using type = float;
};
template <>
struct Computed<__nv_bfloat16> {
  using type = float;
};

template <class T>
__device__ typename Computed<T>::type widened(T value) {
  if constexpr (sizeof(T) == sizeof(typename Computed<T>::type)) {
    return value;
  } else {
    return static_cast<float>(value);
  }
}

__device__ inline bool is_nan(float value) { return value != value; }
__device__ inline bool is_nan(double value) { return value != value; }
template <class T>
__device__ T the_nan();
template <>
__device__ inline float the_nan<float>() {
  return __int_as_float(0x7fc00000);
}
template <>
__device__ inline double the_nan<double>() {
  return __longlong_as_double(0x7ff8000000000000ll);
}

// Rounds to the element type. Every NaN becomes the positive quiet NaN.
template <class T>
__device__ T narrowed(typename Computed<T>::type value);
template <>
__device__ inline float narrowed<float>(float value) {
  return is_nan(value) ? the_nan<float>() : value;
}
template <>
__device__ inline double narrowed<double>(double value) {
  return is_nan(value) ? the_nan<double>() : value;
}
template <>
__device__ inline __half narrowed<__half>(float value) {
  return is_nan(value) ? __ushort_as_half(0x7e00) : __float2half_rn(value);
}
template <>
__device__ inline __nv_bfloat16 narrowed<__nv_bfloat16>(float value) {
  return is_nan(value) ? __ushort_as_bfloat16(0x7fc0) : __float2bfloat16_rn(value);
}

// ---- operators: integers(a, b), and floats(a, b) on float or double

__device__ inline float add(float a, float b) { return __fadd_rn(a, b); }
__device__ inline double add(double a, double b) { return __dadd_rn(a, b); }
__device__ inline float times(float a, float b) { return __fmul_rn(a, b); }
__device__ inline double times(double a, double b) { return __dmul_rn(a, b); }
__device__ inline float over(float a, float b) { return __fdiv_rn(a, b); }
__device__ inline double over(double a, double b) { return __ddiv_rn(a, b); }

__device__ inline std::uint32_t bits(float value) { return __float_as_uint(value); }
__device__ inline std::uint64_t bits(double value) { return static_cast<std::uint64_t>(__double_as_longlong(value)); }
__device__ inline float from_bits(std::uint32_t value) { return __uint_as_float(value); }
__device__ inline double from_bits(std::uint64_t value) { return __longlong_as_double(static_cast<long long>(value)); }

// Except for min and max, integer types are unsigned here, so they wrap around. The factor of type unsigned keeps the
// product of two 16-bit integers from overflowing int.
struct Sum {
  template <class T>
  static __device__ T integers(T a, T b) {
    return static_cast<T>(a + b);
  }
  template <class F>
  static __device__ F floats(F a, F b) {
    return add(a, b);
  }
};
struct Prod {
  template <class T>
  static __device__ T integers(T a, T b) {
    return static_cast<T>(a * static_cast<unsigned>(1) * b);
  }
  template <class F>
  static __device__ F floats(F a, F b) {
    return times(a, b);
  }
};
struct Min {
  template <class T>
  static __device__ T integers(T a, T b) {
    return a < b ? a : b;
  }
  template <class F>
  static __device__ F floats(F a, F b) {
    return a < b ? a : (b < a ? b : (a == b ? from_bits(bits(a) | bits(b)) : the_nan<F>()));
  }
};
struct Max {
  template <class T>
  static __device__ T integers(T a, T b) {
    return a < b ? b : a;
  }
  template <class F>
  static __device__ F floats(F a, F b) {
    return a < b ? b : (b < a ? a : (a == b ? from_bits(bits(a) & bits(b)) : the_nan<F>()));
  }
};
struct Band {
  template <class T>
  static __device__ T integers(T a, T b) {
    return static_cast<T>(a & b);
  }
};
struct Bor {
  template <class T>
  static __device__ T integers(T a, T b) {
    return static_cast<T>(a | b);
  }
};
struct Bxor {
  template <class T>
  static __device__ T integers(T a, T b) {
    return static_cast<T>(a ^ b);
  }
};

}  // namespace tutti::cuda
