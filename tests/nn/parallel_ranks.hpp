// Common parts of tests of parallel layers: ranks as threads over inproc, and comparisons.
#pragma once

#include <functional>

#include "tests/nn/small_net.hpp"

namespace tutti::nn {

inline void run_inproc(int size, const std::function<void(Communicator&)>& body) {
  tutti::testing::run_ranks(size, tutti::testing::test_settings("inproc"), body);
}

/// `tolerance` is relative to the largest wanted value, or to 1 if that is larger.
inline void expect_near(const at::Tensor& got, const at::Tensor& wanted, double tolerance = 1e-12) {
  ASSERT_TRUE(got.defined() && wanted.defined());
  ASSERT_EQ(got.sizes(), wanted.sizes());
  if (wanted.numel() == 0) return;
  const double scale = std::max(1.0, wanted.abs().max().item<double>());
  EXPECT_LE((got - wanted).abs().max().item<double>(), tolerance * scale);
}

}  // namespace tutti::nn
