// NetworkParts: how the tensors of a network over a mesh are sharded.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "engine/models/parallel/layer_cost.hpp"
#include "engine/models/parallel/layout.hpp"
#include "nn/module.hpp"
#include "nn/parallel/module.hpp"

namespace tutti::engine {

/// Gathers, shards and compares the tensors of a network over a mesh. Checkpoints hold whole tensors in the shapes and
/// with the names of the sequential network, so that any mesh can load them. Ranks along `data` hold the same shards.
/// Tensors are identified by name: a parameter's, or "<parameter>.<slot>" for the optimizer's state of it.
class NetworkParts {
 public:
  /// `parts` has the parameters' names; `wholes` are their shapes in the sequential network.
  NetworkParts(Mesh mesh, Layout layout, std::vector<nn::ParameterPart> parts,
               const std::map<std::string, std::vector<std::int64_t>, std::less<>>& wholes,
               std::vector<LayerCost> costs);

  const Mesh& mesh() const noexcept { return mesh_; }
  const Layout& layout() const noexcept { return layout_; }  ///< its groups count the network's traffic
  const std::vector<LayerCost>& costs() const noexcept { return costs_; }

  /// The whole tensors at rank 0 of the mesh; the result on other ranks is unspecified. Collective over the ranks whose
  /// index along `data` is 0; other ranks return an empty list.
  std::vector<nn::NamedTensor> whole(const std::vector<nn::NamedTensor>& mine) const;
  /// This rank's shard of a whole tensor. Local. Throws Error{invalid} for another shape.
  at::Tensor part_of(const std::string& name, const at::Tensor& whole) const;

  /// The Euclidean norm of the gradients of the whole network; the same on all ranks. Collective.
  double gradient_norm(const std::vector<nn::NamedTensor>& parameters) const;
  /// nn::check_replicas() along each axis, for the tensors that are replicated along it. Collective over all ranks.
  void check_replicas(const std::vector<nn::NamedTensor>& parameters,
                      const std::vector<nn::NamedTensor>& buffers) const;
  /// Number of elements of the parameters of the whole network.
  std::int64_t count(const std::vector<nn::NamedTensor>& parameters) const;

 private:
  struct Place {
    std::vector<std::int64_t> whole, sizes;  ///< shape in the sequential network, and shape that the boxes refer to
    std::vector<Box> boxes;
    nn::Group group;
  };
  const Place* find(const std::string& name) const;

  Mesh mesh_;
  Layout layout_;
  /// parameters that are sharded, or whose shape differs from the sequential network's
  std::map<std::string, Place, std::less<>> places_;
  std::vector<LayerCost> costs_;
};

}  // namespace tutti::engine
