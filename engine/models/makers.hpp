// What makes each model, for make_model() alone.
#pragma once

#include <torch/nn/module.h>

#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "engine/models/chain.hpp"
#include "engine/models/network.hpp"
#include "engine/options.hpp"

namespace tutti::engine {
struct ModelSettings;
}

namespace tutti::engine::models {

/// What a maker is told; `input` has been checked to be an image, or for gpt one number.
struct Request {
  const Options& options;
  SampleShape input;
  std::int64_t classes;

  /// Channels by the option `width`, at least 1.
  std::int64_t scaled(double channels) const;
};

/// A module with a forward() of its own.
struct Made {
  std::shared_ptr<torch::nn::Module> module;
  std::function<at::Tensor(const at::Tensor&)> forward;
  std::function<void()> after_update = {};  ///< Network::after_update
};

template <class Module>
Made made(std::shared_ptr<Module> module) {
  return {module, [raw = module.get()](const at::Tensor& batch) { return raw->forward(batch); }, {}};
}

/// The layers of a model that is a chain, from the table or a file. Throws Error{unsupported} for any other.
std::vector<Layer> layers_of(const ModelSettings& settings);

/// A part of a model of blocks: a chain of layers; several chains whose channels come out side by side; or a chain
/// whose output is added to what went in, or to what a second chain makes of it, and rectified.
struct BlockPlan {
  enum class Kind : std::uint8_t { chain, side_by_side, residual } kind = Kind::chain;
  std::string name;
  std::vector<std::vector<Layer>> chains;
};
/// Those of googlenet, resnet18 and resnet50; empty for any other model.
std::vector<BlockPlan> blocks_of(const Request& request);

/// Chains of layers: mlp, lenet, cifar, alexnet, vgg16.
Made make_chain(const Request& request);
/// These are made of blocks: googlenet; resnet18 and resnet50.
Made make_blocks(const Request& request);
Made make_gpt(const Request& request);
Made make_sparse(const Request& request);

/// softmax(query key^T / sqrt(channels)) value, where each position sees only those before it and itself; all are
/// (samples, heads, positions, channels). `dropout` is the part of the attention that is left out.
at::Tensor causal_attention(const at::Tensor& query, const at::Tensor& key, const at::Tensor& value, double dropout);

/// The layers of a file. `dtype` comes later.
Made make_from_layers(const std::filesystem::path& file, const SampleShape& input, std::int64_t classes);

/// A TorchScript module. Its parameters and buffers are also those of the module that is returned, under their names;
/// train() and to() of that one reach it. Throws Error{invalid} where the file cannot be loaded.
Made load_script(const std::filesystem::path& file);

}  // namespace tutti::engine::models
