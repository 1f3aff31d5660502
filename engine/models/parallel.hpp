// Models over a mesh: the networks that make_model() makes, with their images in tiles, and dense layers, heads and
// positions in parts.
#pragma once

#include "collectives/mesh/mesh.hpp"
#include "engine/models/layer_cost.hpp"
#include "engine/models/model.hpp"
#include "engine/models/split.hpp"

namespace tutti::engine {

class NetworkParts;

/// The network of make_model(settings), with the same parameters in all, over a mesh:
///
///   height, width   images are cut into tiles, and layers of images work on these; the first dense layer behind them
///                   has the columns of each rank's tile
///   tensor          dense layers in pairs: the first one's outputs and the second one's inputs are in parts. Where
///                   tiles come before, images are brought together first. Of gpt the heads and the dense layers
///   sequence        of gpt the positions
///   data            nothing: the trainer deals samples out along it
///
/// `choices` says otherwise of single layers. Samples and scores are whole, and the same on all ranks but those along
/// data. Parameters and buffers have the names of the sequential network; Network::parts knows which part of what each
/// rank has. BatchNorms go over the tiles of this rank's samples, or with choices.batch_norm of all ranks'. What
/// dropout leaves out does not depend on axes other than data.
///
/// Collective among all ranks of the mesh; the same settings everywhere. Throws Error{unsupported} or {invalid} in one
/// line with the layer's name, its width and the mesh, for what cannot be split: models of blocks, volumes,
/// padding=same that is uneven, widths that are smaller than an axis.
Network make_parallel_model(const ModelSettings& settings, const Mesh& mesh, const SplitChoices& choices = {});

/// The same for a network of make_model(settings) that is there already, which is left as it is.
Network split_model(const Network& sequential, const ModelSettings& settings, const Mesh& mesh,
                    const SplitChoices& choices = {});

/// What rank `rank` of such a mesh would send and keep, layer by layer. Local; makes this rank's part of the network.
/// Throws as make_parallel_model() does.
std::vector<LayerCost> plan_parallel_model(const ModelSettings& settings, const std::vector<Mesh::Axis>& axes, int rank,
                                           const SplitChoices& choices = {});

}  // namespace tutti::engine
