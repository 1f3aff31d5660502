// Merges: how the deltas or the parameters of several members become one. Members are ranks, which learn sums over all
// by an allreduce, or the workers of a round, whose deltas a master has together. Without LibTorch.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>
#include <vector>

#include "engine/strategies/arithmetic.hpp"

namespace tutti::engine {

/// The weight of a member that trained on so many samples, the tokens of the paper, in so many steps: samples^2 /
/// steps, or 0 without a step (Decoupled DiLoCo 2026).
constexpr double token_weight(std::uint64_t samples, std::uint64_t steps) noexcept {
  const auto many = static_cast<double>(samples);
  return steps == 0 ? 0 : many * many / static_cast<double>(steps);
}

/// The merged delta D of members with the deltas d_i and the weights w_i, W being the sum of the weights:
///
///     mean, tokens  D = sum w_i d_i / W;  with mean all weights are 1
///     radial        for each tensor: D = (sum w_i |d_i| / W) u / |u|, u = sum w_i d_i / |d_i|: the mean norm along the
///                   mean direction (Decoupled DiLoCo 2026)
///
/// Each member scales its delta by its factor, and the mean over the members is D; with radial it is a multiple of u,
/// which is then scaled to norm(). With radial, ranks all have the weight 1 and take embeddings by their mean; masters
/// weigh by tokens.
struct MergeSums {
  double weight = 0;               ///< W
  std::vector<double> norms = {};  ///< radial: by tensor, sum w_i |d_i|

  /// The factor of a member with the weight `own`, of `members` members. If nobody has a weight, all count alike.
  double factor(double own, std::size_t members) const noexcept {
    return weight > 0 ? own * static_cast<double>(members) / weight : 1;
  }
  /// The factor of a tensor whose norm in the member's delta is `norm`; a tensor of zeros stays so.
  double factor(double own, std::size_t members, double norm) const noexcept {
    return norm > 0 ? factor(own, members) / norm : 0;
  }
  /// The norm of tensor number `tensor` in D.
  double norm(std::size_t tensor) const { return weight > 0 ? norms.at(tensor) / weight : 0; }
};

/// d = a (x - c), by which parameters x and c move towards each other: x -= d, c += d. c is the centre, or the mean of
/// the others (EASGD; Zhang, Choromanska and LeCun, NIPS 2015, equations 5 and 6).
template <class Value>
Value elastic_difference(double a, const Value& x, const Value& c) {
  return Arithmetic<Value>::scaled(a, x - c);
}

/// The mean of x and what was received, by their weights, which are not both 0 (GoSGD; Blot et al. 2016).
template <class Value>
Value gossip_mean(const Value& x, double weight, const Value& received, double received_weight) {
  const double total = weight + received_weight;
  return Arithmetic<Value>::fused(received_weight / total, received, Arithmetic<Value>::scaled(weight / total, x));
}

/// Returns true if the parameter's name is that of an embedding table, which has no meaningful direction as a whole.
constexpr bool is_embedding(std::string_view parameter) {
  return parameter.find("embed") != parameter.npos || parameter.find("wte") != parameter.npos ||
         parameter.find("wpe") != parameter.npos;
}

}  // namespace tutti::engine
