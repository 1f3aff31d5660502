// Layout: the groups of ranks that a split network uses, on a mesh or only planned.
#pragma once

#include <torch/nn/module.h>

#include <optional>
#include <string>
#include <vector>

#include "nn/parallel/space.hpp"

namespace tutti::engine {

/// Copies share the groups.
struct Layout {
  std::string mesh;  ///< for errors: "data 2 x height 2"
  nn::Space space;   ///< the ranks along height and width
  nn::Space one;     ///< a space of one rank, for images that are whole
  nn::Group tensor, sequence;
  /// BatchNorms normalise over the samples of these ranks; nullopt: over those of the ranks in `space`
  std::optional<Communicator> together = {};
};

/// The number of elements of a module's parameters on this rank.
std::int64_t weights_of(const torch::nn::Module& module);

/// Dropout on a part of a tensor, `mine` of `extent` along `dim`. The noise is drawn for the whole tensor, the same on
/// every rank, so that the result does not depend on the mesh.
at::Tensor drop_part(const at::Tensor& part, double rate, std::int64_t dim, std::int64_t extent, Interval mine);

/// The layout of this rank in a mesh. With `batch_norm`, BatchNorms span the data axis too. Collective.
Layout layout_of(const Mesh& mesh, bool batch_norm);

/// The layout of rank `rank` in a mesh that does not exist, to compute sizes and bytes. `axes` are those of
/// mesh_axes().
Layout planned_layout(const std::vector<Mesh::Axis>& axes, int rank);

}  // namespace tutti::engine
