// Models: creates networks by name, from a file of layers, or from TorchScript; and lists a network's tensors by name.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "engine/config/tables.hpp"
#include "engine/models/layers.hpp"
#include "engine/models/network.hpp"
#include "nn/module.hpp"

namespace tutti::engine {

/// The parameters and buffers of a network, each tensor once.
struct NetworkTensors {
  std::vector<nn::NamedTensor> parameters, buffers;

  /// The parameters, and then the buffers.
  std::vector<nn::NamedTensor> all() const;
};

/// Network::tensors if it is set, else the tensors of the module.
NetworkTensors tensors_of(const Network& network);

/// Switches between training and evaluation behaviour (dropout, running statistics).
void set_training(const Network& network, bool training);

struct ModelSettings {
  /// A name in model_table(), or a file: .yaml, .yml and .json are layers (engine/models/layers.hpp), .pt, .pth and .ts
  /// TorchScript.
  std::string name = "lenet";
  SampleShape input;          ///< images: (channels, rows, columns); gpt: (maximum context)
  std::int64_t classes = 10;  ///< gpt: size of the vocabulary
  Options::Given options = {};
  std::uint64_t seed = 1;
  std::string dtype = "float32";  ///< float32 or float64
};

/// Creates the network on the CPU, initialised from the seed (TorchScript: from the file), so it is the same on every
/// rank. Image models return scores (samples, classes). gpt takes token ids (samples, positions), i64, and returns
/// scores of the next token (samples, positions, vocabulary). Throws Error{invalid} for unknown names and options,
/// images that are too small, and files that do not fit. One thread at a time: LibTorch's default generator is global.
Network make_model(const ModelSettings& settings);

}  // namespace tutti::engine
