// Layout: the groups of ranks that a network in parts talks to, on a mesh or only planned.
#pragma once

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

/// Of the ranks of a mesh; `batch_norm`: BatchNorms go over data, too. Collective.
Layout layout_of(const Mesh& mesh, bool batch_norm);

/// Of rank `rank` of a mesh that is not there: for sizes and bytes. Axes as mesh_axes() has them.
Layout planned_layout(const std::vector<Mesh::Axis>& axes, int rank);

}  // namespace tutti::engine
