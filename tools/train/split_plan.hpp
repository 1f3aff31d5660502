// The plan of a split network for the dry run: bytes by layer and direction, and a rank's memory.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "engine/config.hpp"
#include "engine/models/model.hpp"
#include "engine/models/parallel/layer_cost.hpp"

namespace tutti::tools {

/// The costs of the rank that sends and stores most.
struct SplitPlan {
  std::vector<engine::LayerCost> layers;
  int rank = 0;
  std::int64_t samples = 0;  ///< samples of a step on each rank
  std::int64_t width = 4;    ///< bytes per element

  std::int64_t weights() const;      ///< in bytes; so are the other results
  std::int64_t activations() const;  ///< stored by forward for backward, including halos
  std::int64_t forward() const;      ///< passed to collectives
  std::int64_t backward() const;

  template <class Numbers>
  std::int64_t total(Numbers of) const;  ///< bytes of all layers with of(layer) elements each
};

/// Plans the parts of all ranks, or of the first 16, with `samples` per step on each. Returns the plan of the rank that
/// costs most. Throws as engine::plan_parallel_model() does.
SplitPlan plan_split(const engine::Config& config, const engine::ModelSettings& settings,
                     const std::vector<Mesh::Axis>& axes, std::int64_t samples);

/// Returns a line for each layer, and one for the total.
std::string split_text(const SplitPlan& plan);

std::string bytes_text(double bytes);  ///< "1.23 MB"

}  // namespace tutti::tools
