// A small network for tests; its values do not depend on where it is made.
#pragma once

#include <ATen/ATen.h>
#include <gtest/gtest.h>
#include <torch/nn/modules/batchnorm.h>
#include <torch/nn/modules/linear.h>

#include <algorithm>
#include <functional>
#include <vector>

#include "tests/support/worlds.hpp"

namespace tutti::nn {

inline void run(int size, const std::function<void(Communicator&)>& body) {
  tutti::testing::run_ranks(size, tutti::testing::test_settings("shm"), body);
}

/// Values that depend on `salt` only, without the random generator that threads share.
inline at::Tensor wave(at::IntArrayRef sizes, double salt) {
  std::int64_t count = 1;
  for (const auto size : sizes) count *= size;
  return (at::arange(count, at::kDouble) * 0.37 + salt).sin().mul(0.5).reshape(sizes);
}

struct Net : torch::nn::Module {
  explicit Net(double salt = 0) {
    fc1 = register_module("fc1", torch::nn::Linear(6, 16));
    fc2 = register_module("fc2", torch::nn::Linear(16, 8));
    fc3 = register_module("fc3", torch::nn::Linear(8, 3));
    norm = register_module("norm", torch::nn::BatchNorm1d(torch::nn::BatchNorm1dOptions(3).affine(false)));
    to(at::kDouble);
    const at::NoGradGuard no_grad;
    for (at::Tensor& each : parameters()) each.copy_(wave(each.sizes(), salt += 1));
    for (at::Tensor& each : buffers())
      if (each.is_floating_point())
        each.add_(salt);
      else
        each.add_(static_cast<std::int64_t>(salt));
  }

  at::Tensor forward(const at::Tensor& x) { return fc3->forward(fc2->forward(fc1->forward(x).tanh()).tanh()); }

  torch::nn::Linear fc1{nullptr}, fc2{nullptr}, fc3{nullptr};
  torch::nn::BatchNorm1d norm{nullptr};
};

inline at::Tensor loss_of(Net& net, const at::Tensor& x) { return net.forward(x).pow(2).sum(1).mean(); }

inline std::vector<at::Tensor> gradients(const torch::nn::Module& net) {
  std::vector<at::Tensor> all;
  for (const at::Tensor& each : net.parameters())
    all.push_back(each.grad().defined() ? each.grad().clone() : at::Tensor());
  return all;
}

inline void expect_close(const std::vector<at::Tensor>& got, const std::vector<at::Tensor>& wanted,
                         double tolerance = 1e-12) {
  ASSERT_EQ(got.size(), wanted.size());
  for (std::size_t i = 0; i < got.size(); ++i) {
    ASSERT_EQ(got[i].defined(), wanted[i].defined()) << "parameter " << i;
    if (!got[i].defined()) continue;
    EXPECT_LE((got[i] - wanted[i]).abs().max().item<double>(), tolerance) << "parameter " << i;
  }
}

/// Returns the rows of `x` that rank `rank` of `size` has. If they do not divide evenly, the first ranks have one more.
inline at::Tensor rows(const at::Tensor& x, int rank, int size) {
  const std::int64_t low = x.size(0) / size, more = x.size(0) % size;
  const std::int64_t count = low + (rank < more ? 1 : 0);
  return x.narrow(0, rank * low + std::min<std::int64_t>(rank, more), count);
}

}  // namespace tutti::nn
