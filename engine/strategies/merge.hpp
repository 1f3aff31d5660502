// Merges: how the deltas or the parameters of several members become one. Members are ranks among equals, each of which
// has its own and exchanges sums, or the workers of a round, which a master has all. Without LibTorch.
#pragma once

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "engine/strategies/arithmetic.hpp"

namespace tutti::engine {

/// The weight of a member that trained on so many samples (tokens) in so many steps: samples^2 / steps, or 0 without a
/// step (Decoupled DiLoCo 2026).
constexpr double token_weight(std::uint64_t samples, std::uint64_t steps) noexcept {
  const auto many = static_cast<double>(samples);
  return steps == 0 ? 0 : many * many / static_cast<double>(steps);
}

/// The merged delta D of members with the deltas d_i and the weights w_i, W being the sum of the weights:
///
///     mean, tokens  D = sum w_i d_i / W;  with mean all weights are 1
///     radial        for each tensor: D = (sum w_i |d_i| / W) u / |u|, u = sum w_i d_i / |d_i|: the mean length along
///                   the mean direction (Decoupled DiLoCo 2026)
///
/// A member scales its delta by its factor, so that the plain mean over the members is the sum above; with radial the
/// mean then gets its length. Members learn W and sum w_i |d_i| by adding up.
struct MergeSums {
  double weight = 0;                 ///< W
  std::vector<double> lengths = {};  ///< radial: by tensor, sum w_i |d_i|

  /// Of a member of `members`, by its weight. If nobody has a weight, all count alike.
  double factor(double own, std::size_t members) const noexcept {
    return weight > 0 ? own * static_cast<double>(members) / weight : 1;
  }
  /// Of a tensor with this length in the member's delta; a tensor of zeros stays so.
  double factor(double own, std::size_t members, double length) const noexcept {
    return length > 0 ? factor(own, members) / length : 0;
  }
  /// The length of tensor number `tensor` in D.
  double length(std::size_t tensor) const { return weight > 0 ? lengths.at(tensor) / weight : 0; }
};

/// The L2 norm, added up in double. Wide is the type that T is computed in, float or double.
template <class Wide, class T>
double length_of(std::span<const T> values) {
  double squares = 0;
  for (const T& each : values) {
    const auto value = static_cast<double>(static_cast<Wide>(each));
    squares += value * value;
  }
  return std::sqrt(squares);
}

/// d = a (x - c), the force between a member's parameters x and the others', or the centre, c: x -= d, and with a
/// centre c += d (EASGD; Zhang, Choromanska and LeCun, NIPS 2015, equations 5 and 6).
template <class Value>
Value elastic_force(double a, const Value& x, const Value& c) {
  return Arithmetic<Value>::scaled(a, x - c);
}

/// The mean of x and `came` by their weights, which are not both 0 (GoSGD; Blot et al. 2016).
template <class Value>
Value gossip_mean(const Value& x, double weight, const Value& came, double came_weight) {
  const double total = weight + came_weight;
  return Arithmetic<Value>::fused(came_weight / total, came, Arithmetic<Value>::scaled(weight / total, x));
}

/// Returns true if the parameter's name is that of an embedding table, which has no meaningful direction as a whole.
constexpr bool is_embedding(std::string_view parameter) {
  return parameter.find("embed") != parameter.npos || parameter.find("wte") != parameter.npos ||
         parameter.find("wpe") != parameter.npos;
}

}  // namespace tutti::engine
