// What the dry run says of a network in parts: bytes by layer and direction, and what a rank keeps.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "engine/config.hpp"
#include "engine/models/layer_cost.hpp"
#include "engine/models/model.hpp"

namespace tutti::tools {

/// Of the rank that sends and keeps the most.
struct SplitPlan {
  std::vector<engine::LayerCost> layers;
  int rank = 0;
  std::int64_t samples = 0;  ///< of a step, on each rank
  std::int64_t width = 4;    ///< bytes of an element

  std::int64_t weights() const;      ///< bytes, as are the others
  std::int64_t activations() const;  ///< those that forward keeps for backward, halos among them
  std::int64_t forward() const;      ///< given to collectives
  std::int64_t backward() const;

  template <class Numbers>
  std::int64_t total(Numbers of) const;  ///< of all layers, `of` elements each
};

/// Plans every rank's part (of more than 16 ranks, the first 16 alone); `samples` of a step are on each. Throws as
/// engine::plan_parallel_model() does.
SplitPlan plan_split(const engine::Config& config, const engine::ModelSettings& settings,
                     const std::vector<Mesh::Axis>& axes, std::int64_t samples);

/// A line for each layer, and one for all of them.
std::string split_text(const SplitPlan& plan);

std::string bytes_text(double bytes);  ///< "1.23 MB"

}  // namespace tutti::tools
