// Layout: the groups of ranks that a network in parts talks to, on a mesh or only planned.
#pragma once

#include <torch/nn/module.h>

#include <optional>
#include <string>
#include <vector>

#include "nn/parallel/space.hpp"

namespace tutti::engine {

/// A value: copies talk through the same groups.
struct Layout {
  std::string mesh;  ///< for errors: "data 2 x height 2"
  nn::Space space;   ///< height and width
  nn::Space one;     ///< for images that are whole: a space of one rank
  nn::Group tensor, sequence;
  std::optional<Communicator> together = {};  ///< whose samples BatchNorms take as one batch; none: those of the space
};

/// Elements of all parameters of a module on this rank.
std::int64_t weights_of(const torch::nn::Module& module);

/// Dropout on a part of a tensor, `mine` of `extent` along `dim`. The numbers are drawn for the whole tensor, the same
/// on every rank, so that what is left out does not depend on the mesh.
at::Tensor drop_part(const at::Tensor& part, double rate, std::int64_t dim, std::int64_t extent, Interval mine);

/// Of the ranks of a mesh; `batch_norm`: BatchNorms go over data, too. Collective.
Layout layout_of(const Mesh& mesh, bool batch_norm);

/// Of rank `rank` of a mesh that is not there: for sizes and bytes. Axes as mesh_axes() has them.
Layout planned_layout(const std::vector<Mesh::Axis>& axes, int rank);

}  // namespace tutti::engine
