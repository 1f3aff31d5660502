// Models: networks by name, from a file of layers, or from TorchScript; and a network's tensors by name.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "engine/models/layers.hpp"
#include "engine/models/network.hpp"
#include "engine/models/table.hpp"
#include "nn/module.hpp"

namespace tutti::engine {

/// What is trained and what is kept beside it, each tensor once.
struct NetworkTensors {
  std::vector<nn::NamedTensor> parameters, buffers;
};

/// Those that the network states, else its module's.
NetworkTensors tensors_of(const Network& network);

/// Turns training behaviour (dropout, running statistics) on or off.
void set_training(const Network& network, bool training);

struct ModelSettings {
  /// One of model_table(); or a file: .yaml, .yml and .json state layers (engine/models/layers.hpp), .pt, .pth and .ts
  /// are TorchScript.
  std::string name = "lenet";
  SampleShape input;          ///< images: (channels, rows, columns); gpt: (longest context)
  std::int64_t classes = 10;  ///< gpt: tokens of the vocabulary
  Options::Given options = {};
  std::uint64_t seed = 1;
  std::string dtype = "float32";  ///< or float64
};

struct Config;
struct DataSplit;
/// What a configuration means for this data. Throws Error{invalid} where samples have several inputs.
ModelSettings settings_of(const Config& config, const DataSplit& data);

/// The network, on the CPU, initialised from the seed alone (TorchScript: from the file): the same on every rank,
/// whatever their number. Images give
/// scores (samples, classes); gpt takes token numbers (samples, positions), int64, and gives scores of the next token
/// (samples, positions, vocabulary). Throws Error{invalid}: unknown names and options, images that are too small, a
/// file that does not fit. One thread at a time: LibTorch has one random generator.
Network make_model(const ModelSettings& settings);

}  // namespace tutti::engine
