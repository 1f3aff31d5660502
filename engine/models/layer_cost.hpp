// LayerCost: what one layer of a network in parts sends, and what one rank keeps of it. Plain numbers.
#pragma once

#include <cstdint>
#include <string>

#include "collectives/mesh/box_exchange.hpp"

namespace tutti::engine {

/// In elements, of one rank. What is sent is what this rank gives to collectives, as nn::Traffic counts it: for each
/// sample of a step, and once in it.
struct LayerCost {
  std::string layer;                ///< "conv1"
  std::string split = "replicate";  ///< how it lies on the mesh, for people
  std::int64_t forward = 0, forward_once = 0, backward = 0, backward_once = 0;
  std::int64_t weights = 0;  ///< here
  std::int64_t outputs = 0;  ///< here, of each sample
  std::int64_t halo = 0;     ///< of each sample, that other ranks' tiles have and this one keeps for backward

  /// Adds an exchange of boxes of so many channels, and its adjoint where what goes in has a gradient.
  void add_exchange(const BoxPlan& plan, std::int64_t channels, bool has_gradient) {
    forward += plan.given() * channels;
    if (has_gradient) backward += plan.taken() * channels;
    halo += plan.taken() * channels;
  }

  std::int64_t sent_forward(std::int64_t samples) const noexcept { return forward * samples + forward_once; }
  std::int64_t sent_backward(std::int64_t samples) const noexcept { return backward * samples + backward_once; }
};

}  // namespace tutti::engine
