#include "engine/models/model.hpp"

#include <c10/util/Exception.h>
#include <torch/nn/module.h>
#include <torch/utils.h>

#include <algorithm>

#include "engine/config/options.hpp"
#include "engine/models/makers.hpp"
#include "tutti/status.hpp"

namespace tutti::engine {
namespace {

models::Made from_file(const std::filesystem::path& file, const ModelSettings& settings) {
  if (!settings.options.empty())
    refuse("model=" + file.string() + " takes no option '" + settings.options.begin()->first + "': leave it out");
  const std::string kind = file.extension();
  if (kind == ".pt" || kind == ".pth" || kind == ".ts") return models::load_script(file);
  return models::make_from_layers(file, settings.input, settings.classes);
}

bool is_file(const std::string& name) {
  constexpr std::string_view kinds[] = {".yaml", ".yml", ".json", ".pt", ".pth", ".ts"};
  return std::ranges::find(kinds, std::filesystem::path(name).extension().string()) != std::end(kinds);
}

/// Throws Error{invalid} with LibTorch's message about sizes that are not possible, in one line.
[[noreturn]] void refuse_sizes(const ModelSettings& settings, const std::string& why) {
  refuse("model=" + settings.name + ": " + why.substr(0, why.find('\n')) +
         ": choose sizes that are possible, and that fit into memory");
}

models::Made from_table(const ModelSettings& settings) {
  const Options options(choose("model", model_table(), settings.name), settings.options);
  const std::size_t dimensions = settings.name == "gpt" ? 1 : 3;
  const bool any = settings.name == "mlp";
  if (settings.input.empty() || (!any && settings.input.size() != dimensions))
    refuse("model=" + settings.name + " wants " +
           (dimensions == 1 ? "samples of tokens, and a context" : "images of channels, rows and columns") +
           ": choose other data, or another model");
  const models::Request request{options, settings.input, settings.classes};
  try {
    if (settings.name == "gpt") return models::make_gpt(request);
    if (settings.name == "sparse") return models::make_sparse(request);
    if (settings.name == "googlenet" || settings.name.starts_with("resnet")) return models::make_blocks(request);
    return models::make_chain(request);
  } catch (const Error& error) {
    throw Error(error.code(), "model=" + settings.name + ": " + error.what());
  }
}

}  // namespace

std::vector<nn::NamedTensor> NetworkTensors::all() const {
  std::vector<nn::NamedTensor> found = parameters;
  found.insert(found.end(), buffers.begin(), buffers.end());
  return found;
}

NetworkTensors tensors_of(const Network& network) {
  if (network.tensors) return *network.tensors;
  if (!network.module) refuse("the network has neither a module nor tensors: set Network::tensors");
  return {nn::named_parameters(*network.module), nn::named_buffers(*network.module)};
}

void set_training(const Network& network, bool training) {
  if (network.set_training)
    network.set_training(training);
  else if (network.module)
    network.module->train(training);
}

Network make_model(const ModelSettings& settings) {
  if (settings.dtype != "float32" && settings.dtype != "float64")
    refuse("dtype=" + settings.dtype + ": expected float32 or float64");
  if (settings.classes < 1 || std::ranges::any_of(settings.input, [](std::int64_t side) { return side < 1; }))
    refuse("a model needs at least one class, and sides of its input from 1 up");
  torch::manual_seed(settings.seed);
  try {
    models::Made made = is_file(settings.name) ? from_file(settings.name, settings) : from_table(settings);
    made.module->to(settings.dtype == "float64" ? at::kDouble : at::kFloat);
    return {.module = std::move(made.module),
            .forward = std::move(made.forward),
            .after_update = std::move(made.after_update)};
  } catch (const c10::Error& error) {
    refuse_sizes(settings, error.what_without_backtrace());
  } catch (const std::bad_alloc&) {
    refuse_sizes(settings, "there is no memory for it");
  }
}

}  // namespace tutti::engine
