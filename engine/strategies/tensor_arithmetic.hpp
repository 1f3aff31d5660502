// The arithmetic of engine/strategies/arithmetic.hpp for whole tensors on any device.
#pragma once

#include <ATen/Functions.h>
#include <ATen/TensorOperators.h>

#include "engine/strategies/arithmetic.hpp"

namespace tutti::engine {

/// All functions return new tensors. fused() rounds once if LibTorch's kernel for the device uses a fused instruction.
template <>
struct Arithmetic<at::Tensor> {
  static at::Tensor scaled(double a, const at::Tensor& x) { return x.mul(a); }
  static at::Tensor fused(double a, const at::Tensor& x, const at::Tensor& y) { return y.add(x, a); }
  static at::Tensor fused_square(double a, const at::Tensor& x, const at::Tensor& y) { return y.addcmul(x, x, a); }
  static at::Tensor sqrt(const at::Tensor& x) { return x.sqrt(); }
  static at::Tensor add(const at::Tensor& x, double a) { return x.add(a); }
  static at::Tensor divide(const at::Tensor& x, double a) { return x.div(a); }
  static at::Tensor zero(const at::Tensor& x) { return at::zeros_like(x); }
};

}  // namespace tutti::engine
