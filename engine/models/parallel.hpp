// Models over a mesh: the chains of layers that make_model() makes, with their images in tiles and their dense layers
// in parts.
#pragma once

#include "collectives/mesh/mesh.hpp"
#include "engine/models/model.hpp"

namespace tutti::engine {

/// The network of make_model(settings), with the same parameters in all, over a mesh:
///
///   height, width   images are cut into tiles, and layers of images work on these; the first dense layer behind them
///                   has the columns of each rank's tile
///   tensor          dense layers in pairs: the first one's outputs and the second one's inputs are in parts. Where
///   tiles
///                   come before, images are brought together first
///   data            nothing: give the trainer mesh["data"] as its communicator
///
/// Samples and scores are whole, and the same on all ranks but those along data. Parameters have the names of the
/// sequential network; nn::parameter_parts() says which part of what each rank has. BatchNorms go over the tiles of
/// this rank's samples.
///
/// Collective among all ranks of the mesh; the same `settings` everywhere. Throws Error{unsupported} with the model's
/// or layer's name for what cannot be split: models of blocks, dropout of images in tiles, padding=same that is uneven.
Network make_parallel_model(const ModelSettings& settings, const Mesh& mesh);

/// The same for a network of make_model(settings) that is there already, which is left as it is.
Network split_model(const Network& sequential, const ModelSettings& settings, const Mesh& mesh);

}  // namespace tutti::engine
