// Weights from a file: a network begins with those of another run, or of another library.
#pragma once

#include <cstddef>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "engine/config.hpp"
#include "engine/models/network.hpp"

namespace tutti::engine {

/// What load_weights() found, by the network's names, but for `unexpected`.
struct LoadedWeights {
  std::filesystem::path file;
  std::size_t loaded = 0;                ///< tensors
  std::vector<std::string> missing;      ///< in the file
  std::vector<std::string> other_shape;  ///< in the file
  std::vector<std::string> unexpected;   ///< the file's names of tensors that the network does not have
  /// "62 tensors are from FILE", and what was left out.
  std::string text() const;
};

/// The safetensors file that `from` means: itself, or the network of a checkpoint's folder, or of a run's folder, of
/// which the best checkpoint is taken if there is one, else the last. Where a checkpoint has an average of the
/// parameters (optimizer.ema), that is taken. Throws Error{invalid} if there is none.
std::filesystem::path weights_file(const std::filesystem::path& from);

/// Copies parameters and buffers from the file that `from` means (weights_file()) into a network that is not split over
/// a mesh yet. Tensors are found by name: the network's, or torchvision's for a `model` of
/// torchvision_names(); "module." in front of a name is ignored. Element types are converted. BatchNorm's number of
/// batches may be missing. With `strict` all tensors must be there, have the same shape, and no others may be; without
/// it those that fit are copied, and at least one must. Throws Error{invalid}, and then copies nothing. Threads: one.
LoadedWeights load_weights(const Network& network, const std::filesystem::path& from, std::string_view model = {},
                           bool strict = true);

/// load_weights() as model.from and model.strict say, unless a run goes on from a checkpoint; then Network::weights
/// says what was loaded.
void begin_with_weights(Network& network, const Config& config);

}  // namespace tutti::engine
