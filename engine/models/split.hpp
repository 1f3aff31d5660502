// Split: how a layer is distributed over a mesh, and the mesh that a configuration describes. Without LibTorch.
#pragma once

#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "tutti/mesh.hpp"

namespace tutti::engine {

struct Config;

/// The part of a layer that each rank has.
enum class Split : std::uint8_t {
  automatic,  ///< chosen by the mesh: images in tiles, dense layers in pairs
  replicate,  ///< the whole layer, with the whole input
  column,     ///< dense layers and blocks: the weights of some outputs
  row,        ///< dense layers: the weights of some inputs
  space,      ///< image layers, and the dense layer after them: a tile of each image
};

/// Parses a name: auto, replicate (none, datapar), column (colwise), row (rowwise, modelpar, vecpar), space (halopar,
/// halodatapar). Throws Error{invalid}.
Split parse_split(std::string_view text);
std::string_view name_of(Split split) noexcept;

/// The choices of a configuration for single layers.
struct SplitChoices {
  std::map<std::string, Split, std::less<>> layers;  ///< by name of the layer or block
  Split dense = Split::automatic;                    ///< for dense layers without a choice of their own
  bool images_first = false;                         ///< true: a dense layer before any image layer is refused
  bool batch_norm = false;  ///< BatchNorms normalise over the samples of all ranks along `data`
};
SplitChoices split_choices(const Config& config);

/// Parses "conv1=space,fc1=row". Throws Error{invalid}.
std::map<std::string, Split, std::less<>> parse_splits(std::string_view text);

/// The axes that parallel.* describes for `ranks` ranks: always `data`, others if they have more than one rank. The
/// last axis, tensor, is the innermost. Throws Error{invalid}, in one line, if they do not fit.
std::vector<Mesh::Axis> mesh_axes(const Config& config, int ranks);

/// True if the configuration distributes more than samples.
bool splits_network(const Config& config, int ranks);

}  // namespace tutti::engine
