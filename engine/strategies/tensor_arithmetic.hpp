// The arithmetic of engine/strategies/arithmetic.hpp on whole tensors of any device.
#pragma once

#include <ATen/Functions.h>
#include <ATen/TensorOperators.h>

#include "engine/strategies/arithmetic.hpp"

namespace tutti::engine {

/// Makes new tensors. On the CPU, fused() and squared() round once where LibTorch's vector instructions do.
template <>
struct Arithmetic<at::Tensor> {
  static at::Tensor scaled(double a, const at::Tensor& x) { return x.mul(a); }
  static at::Tensor fused(double a, const at::Tensor& x, const at::Tensor& y) { return y.add(x, a); }
  static at::Tensor squared(double a, const at::Tensor& x, const at::Tensor& y) { return y.addcmul(x, x, a); }
  static at::Tensor root(const at::Tensor& x) { return x.sqrt(); }
  static at::Tensor plus(const at::Tensor& x, double a) { return x.add(a); }
  static at::Tensor over(const at::Tensor& x, double a) { return x.div(a); }
  static at::Tensor zero(const at::Tensor& x) { return at::zeros_like(x); }
};

}  // namespace tutti::engine
