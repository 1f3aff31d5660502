// NetworkParts: where the tensors of a network over a mesh lie, by their places in the whole ones.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "engine/models/layer_cost.hpp"
#include "engine/models/layout.hpp"
#include "nn/module.hpp"
#include "nn/parallel/module.hpp"

namespace tutti::engine {

/// What ranks keep of a network together, and how they compare it. What is saved is whole, in the shapes and under the
/// names of the sequential network, so that any mesh reads what any other wrote. Ranks along data have the same parts.
///
/// A tensor is looked up by its name: a parameter's, or "<parameter>.<what>" of what an optimizer remembers of it.
class NetworkParts {
 public:
  /// `parts` by the parameters' names, `wholes` the sequential network's shapes of these.
  NetworkParts(Mesh mesh, Layout layout, std::vector<nn::ParameterPart> parts,
               const std::map<std::string, std::vector<std::int64_t>, std::less<>>& wholes,
               std::vector<LayerCost> costs);

  const Mesh& mesh() const noexcept { return mesh_; }
  const Layout& layout() const noexcept { return layout_; }  ///< whose groups count what the network sends
  const std::vector<LayerCost>& costs() const noexcept { return costs_; }

  /// The whole tensors, at rank 0 of the mesh; elsewhere nothing that is of use. Collective among the ranks whose place
  /// along data is 0; the others give none.
  std::vector<nn::NamedTensor> whole(const std::vector<nn::NamedTensor>& mine) const;
  /// This rank's part of a whole tensor. Local. Throws Error{invalid} for another shape.
  at::Tensor part_of(const std::string& name, const at::Tensor& whole) const;

  /// The Euclidean norm of the whole network's gradients; the same on all ranks. Collective.
  double gradient_norm(const std::vector<nn::NamedTensor>& parameters) const;
  /// nn::check_replicas() along every axis, of what is alike along it. Collective among all ranks.
  void check_replicas(const std::vector<nn::NamedTensor>& parameters,
                      const std::vector<nn::NamedTensor>& buffers) const;
  /// Of the whole network.
  std::int64_t count(const std::vector<nn::NamedTensor>& parameters) const;

 private:
  struct Place {
    std::vector<std::int64_t> whole, sizes;  ///< of the sequential network; as the boxes have it
    std::vector<Box> boxes;
    nn::Group group;
  };
  const Place* find(const std::string& name) const;

  Mesh mesh_;
  Layout layout_;
  std::map<std::string, Place, std::less<>> places_;  ///< of parameters in parts, or of another shape than whole
  std::vector<LayerCost> costs_;
};

}  // namespace tutti::engine
