// Split: how a layer lies on a mesh of ranks, and the mesh that a configuration asks for. Without LibTorch.
#pragma once

#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "collectives/mesh/mesh.hpp"

namespace tutti::engine {

struct Config;

/// What each rank has of a layer.
enum class Split : std::uint8_t {
  automatic,  ///< what suits the mesh: images in tiles, dense layers in pairs
  replicate,  ///< all of it, and all inputs
  column,     ///< dense layers and blocks: a part of the outputs' weights
  row,        ///< dense layers: a part of the inputs' weights
  space,      ///< layers of images, and the dense layer behind them: a tile of every image
};

/// By name: auto, replicate (none, datapar), column (colwise), row (rowwise, modelpar, vecpar), space (halopar,
/// halodatapar). Throws Error{invalid}.
Split parse_split(std::string_view text);
std::string_view name_of(Split split) noexcept;

/// What a configuration says of layers beside their axes.
struct SplitChoices {
  std::map<std::string, Split, std::less<>> layers;  ///< by the name of the layer or block
  Split dense = Split::automatic;                    ///< of dense layers that say nothing themselves
  bool images_first = false;                         ///< a dense layer before any layer of images is a mistake
  bool batch_norm = false;                           ///< over the samples of all ranks along data
};
SplitChoices split_choices(const Config& config);

/// "conv1=space,fc1=row". Throws Error{invalid}.
std::map<std::string, Split, std::less<>> parse_splits(std::string_view text);

/// The axes that parallel.* means for so many ranks, data among them always, and others only where they have more than
/// one rank; the last axis, tensor, is the innermost. Throws Error{invalid} in one line where they do not fit.
std::vector<Mesh::Axis> mesh_axes(const Config& config, int ranks);

/// Whether a configuration asks for more than samples in parts.
bool splits_network(const Config& config, int ranks);

/// Throws Error{invalid} for what goes with samples in parts alone.
void check_split(const Config& config, int ranks);

}  // namespace tutti::engine
