// Merges: how the deltas or the parameters of several members become one. Members are ranks, which compute sums by an
// allreduce, or the workers of a round, all of whose deltas the master has. Does not use LibTorch.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>
#include <vector>

#include "engine/strategies/arithmetic.hpp"

namespace tutti::engine {

/// Returns the weight of a member that trained on `samples` samples (the paper's tokens) in `steps` steps: samples^2 /
/// steps, or 0 without a step (Decoupled DiLoCo 2026).
constexpr double token_weight(std::uint64_t samples, std::uint64_t steps) noexcept {
  const auto many = static_cast<double>(samples);
  return steps == 0 ? 0 : many * many / static_cast<double>(steps);
}

/// The merged delta D of members with the deltas d_i and the weights w_i; W is the sum of the weights:
///
///     mean, tokens  D = sum w_i d_i / W;  with mean all weights are 1
///     radial        for each tensor: D = (sum w_i |d_i| / W) u / |u|, u = sum w_i d_i / |d_i|: the mean norm along the
///                   mean direction (Decoupled DiLoCo 2026)
///
/// Each member scales its delta by factor(); D is the mean of the scaled deltas. With radial that mean is a multiple of
/// u, and is then scaled to norm(). With radial, all ranks have the weight 1, and embeddings are merged by their mean;
/// masters use the weights of tokens.
struct MergeSums {
  double weight = 0;               ///< W
  std::vector<double> norms = {};  ///< radial: by tensor, sum w_i |d_i|

  /// Returns the factor for a member with the weight `own`, of `members` members. It is 1 if the sum of weights is 0.
  double factor(double own, std::size_t members) const noexcept {
    return weight > 0 ? own * static_cast<double>(members) / weight : 1;
  }
  /// Returns the factor for a tensor whose norm in the member's delta is `norm`; 0 for a tensor of zeros.
  double factor(double own, std::size_t members, double norm) const noexcept {
    return norm > 0 ? factor(own, members) / norm : 0;
  }
  /// The norm of tensor number `tensor` in D.
  double norm(std::size_t tensor) const { return weight > 0 ? norms.at(tensor) / weight : 0; }
};

/// Returns d = a (x - c). x -= d and c += d move the parameters x and c towards each other. c is the centre, or the
/// mean of the others (EASGD; Zhang, Choromanska and LeCun, NIPS 2015, equations 5 and 6).
template <class Value>
Value elastic_difference(double a, const Value& x, const Value& c) {
  return Arithmetic<Value>::scaled(a, x - c);
}

/// Returns the mean of x and `received`, by their weights, which must not both be 0 (GoSGD; Blot et al. 2016).
template <class Value>
Value gossip_mean(const Value& x, double weight, const Value& received, double received_weight) {
  const double total = weight + received_weight;
  return Arithmetic<Value>::fused(received_weight / total, received, Arithmetic<Value>::scaled(weight / total, x));
}

/// Returns true if the name is that of an embedding table. The direction of a whole table has no meaning.
constexpr bool is_embedding(std::string_view parameter) {
  return parameter.find("embed") != parameter.npos || parameter.find("wte") != parameter.npos ||
         parameter.find("wpe") != parameter.npos;
}

}  // namespace tutti::engine
