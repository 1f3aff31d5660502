// Reads a network's initial weights from a file of another run or another library.
#pragma once

#include <cstddef>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "engine/config.hpp"
#include "engine/models/network.hpp"

namespace tutti::engine {

/// The result of load_weights(). Names are the network's, except in `unexpected`.
struct LoadedWeights {
  std::filesystem::path file;
  std::size_t loaded = 0;                ///< number of tensors
  std::vector<std::string> missing;      ///< not in the file
  std::vector<std::string> other_shape;  ///< of another shape in the file
  std::vector<std::string> unexpected;   ///< the file's names of tensors that the network does not have
  /// "62 tensors are from FILE", and which were not loaded.
  std::string text() const;
};

/// Returns the safetensors file for `from`. A file stands for itself. A checkpoint's folder stands for its network. A
/// run's folder stands for its best checkpoint if there is one, else for its last. If a checkpoint has an average of
/// the parameters (optimizer.ema), returns that. Throws Error{invalid} if there is no network.
std::filesystem::path weights_file(const std::filesystem::path& from);

/// Copies parameters and buffers from the file weights_file(from) into a network that is not split over a mesh yet.
/// Finds tensors by the network's names, or by torchvision's for a `model` of torchvision_names(); ignores "module." in
/// front of a name. Converts element types. BatchNorm's number of batches may be missing. With `strict` all other
/// tensors must be in the file, with the same shapes, and the file must have no further ones. Without it those that fit
/// are copied; at least one must fit. Throws Error{invalid}, and then copies nothing. One thread.
LoadedWeights load_weights(const Network& network, const std::filesystem::path& from, std::string_view model = {},
                           bool strict = true);

/// Calls load_weights() according to model.from and model.strict, and sets Network::weights. Does nothing if model.from
/// is empty or the run resumes from a checkpoint.
void begin_with_weights(Network& network, const Config& config);

}  // namespace tutti::engine
