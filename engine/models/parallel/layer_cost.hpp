// LayerCost: the elements that one layer of a split network sends, and those that one rank keeps.
#pragma once

#include <cstdint>
#include <string>

#include "tutti/box_exchange.hpp"

namespace tutti::engine {

/// In elements, for one rank. Sent elements are those that this rank passes to collectives, as nn::Traffic counts them:
/// for each sample of a step, and once per step.
struct LayerCost {
  std::string layer;                ///< "conv1"
  std::string split = "replicate";  ///< how the layer is split over the mesh, as text for reports
  std::int64_t forward = 0, forward_once = 0, backward = 0, backward_once = 0;
  std::int64_t weights = 0;  ///< on this rank
  std::int64_t outputs = 0;  ///< on this rank, for each sample
  std::int64_t halo = 0;     ///< elements of other ranks' tiles that this rank keeps for backward, for each sample

  /// Adds an exchange of boxes with `channels` channels, and its adjoint if the input has a gradient.
  void add_exchange(const BoxPlan& plan, std::int64_t channels, bool has_gradient) {
    forward += plan.given() * channels;
    if (has_gradient) backward += plan.taken() * channels;
    halo += plan.taken() * channels;
  }

  std::int64_t sent_forward(std::int64_t samples) const noexcept { return forward * samples + forward_once; }
  std::int64_t sent_backward(std::int64_t samples) const noexcept { return backward * samples + backward_once; }
};

}  // namespace tutti::engine
