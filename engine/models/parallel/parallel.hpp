// The networks of make_model(), distributed over a mesh: images in tiles; dense layers, attention heads and positions
// sharded.
#pragma once

#include "engine/models/model.hpp"
#include "engine/models/parallel/layer_cost.hpp"
#include "engine/models/split.hpp"
#include "tutti/mesh.hpp"

namespace tutti::engine {

class NetworkParts;

/// The network of make_model(settings), with the same parameters as a whole, distributed over a mesh:
///
///   height, width   images are divided into tiles, and image layers work on tiles; the first dense layer after them
///                   has the columns of each rank's tile
///   tensor          dense layers in pairs, sharded by the outputs of the first and the inputs of the second;
///                   preceding tiles are gathered. In gpt: attention heads and dense layers
///   sequence        in gpt: the positions
///   data            no effect: the trainer distributes samples along it
///
/// `choices` overrides this for single layers. Inputs and scores are whole tensors, equal on all ranks except along
/// `data`. Parameters and buffers have the names of the sequential network; Network::parts knows which shard this rank
/// has. BatchNorms normalise over all tiles of this rank's samples, or over the samples of all ranks if
/// choices.batch_norm is set. The values that dropout zeroes do not depend on axes other than `data`.
Network make_parallel_model(const ModelSettings& settings, const Mesh& mesh, const SplitChoices& choices = {});

/// The same for an existing network of make_model(settings), which is not changed.
Network split_model(const Network& sequential, const ModelSettings& settings, const Mesh& mesh,
                    const SplitChoices& choices = {});

/// The elements that rank `rank` of a mesh with `axes` would send and store, per layer. Local; creates this rank's part
/// of the network. Throws as make_parallel_model() does.
std::vector<LayerCost> plan_parallel_model(const ModelSettings& settings, const std::vector<Mesh::Axis>& axes, int rank,
                                           const SplitChoices& choices = {});

}  // namespace tutti::engine
