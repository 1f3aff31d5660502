// The functions that create each model, for make_model() only.
#pragma once

#include <torch/nn/module.h>

#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "engine/config/options.hpp"
#include "engine/models/chain.hpp"
#include "engine/models/network.hpp"

namespace tutti::engine {

struct ModelSettings;
}

namespace tutti::engine::models {

/// The arguments of a maker. `input` has been checked to be an image; for gpt a single number.
struct Request {
  const Options& options;
  SampleShape input;
  std::int64_t classes;

  /// A number of channels scaled by the option `width`, at least 1.
  std::int64_t scaled(double channels) const;
};

/// A module with its forward function.
struct Made {
  std::shared_ptr<torch::nn::Module> module;
  std::function<at::Tensor(const at::Tensor&)> forward;
  std::function<void()> after_update = {};  ///< Network::after_update
};

template <class Module>
Made made(std::shared_ptr<Module> module) {
  return {module, [raw = module.get()](const at::Tensor& batch) { return raw->forward(batch); }, {}};
}

/// The layers of a model that is a chain, from the table or a file. Throws Error{unsupported} for other models.
std::vector<Layer> layers_of(const ModelSettings& settings);

/// A block of a model: a chain of layers; several parallel chains whose outputs are concatenated along the channels; or
/// a residual chain, whose output is added to its input, or to the output of a second chain, before a ReLU.
struct BlockPlan {
  enum class Kind : std::uint8_t { chain, side_by_side, residual } kind = Kind::chain;
  std::string name;
  std::vector<std::vector<Layer>> chains;
};
/// The blocks of googlenet, resnet18 and resnet50; empty for any other model.
std::vector<BlockPlan> blocks_of(const Request& request);

/// Models that are chains of layers: mlp, lenet, cifar, alexnet, vgg16.
Made make_chain(const Request& request);
/// Models that are made of blocks: googlenet, resnet18, resnet50.
Made make_blocks(const Request& request);
Made make_gpt(const Request& request);
Made make_sparse(const Request& request);

/// softmax(query key^T / sqrt(channels)) value, in which each position attends to itself and earlier positions; tensors
/// are (samples, heads, positions, channels). `dropout` is the dropout probability of the attention weights.
at::Tensor causal_attention(const at::Tensor& query, const at::Tensor& key, const at::Tensor& value, double dropout);

/// Creates the chain of a file of layers in f32; the caller converts the dtype.
Made make_from_layers(const std::filesystem::path& file, const SampleShape& input, std::int64_t classes);

/// Loads a TorchScript module. The returned module has the same parameters and buffers under the same names, and
/// forwards train() and to(). Throws Error{invalid} if the file cannot be loaded.
Made load_script(const std::filesystem::path& file);

}  // namespace tutti::engine::models
