#include "engine/loop/weights.hpp"

#include <ATen/core/Tensor.h>
#include <c10/core/GradMode.h>

#include <algorithm>
#include <map>

#include "engine/checkpoint/shards.hpp"
#include "engine/data/tensors.hpp"
#include "engine/loop/run_config.hpp"
#include "engine/models/model.hpp"
#include "engine/models/names.hpp"

namespace tutti::engine {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view batches = "num_batches_tracked";

/// "3 (conv1.weight, conv1.bias, ...)".
std::string listed(const std::vector<std::string>& names) {
  std::string text;
  for (std::size_t i = 0; i < std::min<std::size_t>(names.size(), 3); ++i) text += (i > 0 ? ", " : "") + names[i];
  return std::to_string(names.size()) + " (" + text + (names.size() > 3 ? ", ...)" : ")");
}

/// Arrays by name, without "module." in front, which PyTorch's DistributedDataParallel adds.
std::map<std::string, Array> by_name(const Fields& arrays) {
  constexpr std::string_view prefix = "module.";
  std::map<std::string, Array> found;
  for (const auto& [name, array] : arrays) found[name.starts_with(prefix) ? name.substr(prefix.size()) : name] = array;
  return found;
}

/// Maps the network's names to those in the file: torchvision's names if more of them are in the file.
std::map<std::string, std::string> names_in(const std::map<std::string, Array>& arrays,
                                            const std::vector<std::string>& own, std::string_view model) {
  std::map<std::string, std::string> names, theirs = torchvision_names(model, own);
  for (const std::string& name : own) names[name] = name;
  const auto there = [&](const std::map<std::string, std::string>& all) {
    return std::ranges::count_if(all, [&](const auto& each) { return arrays.contains(each.second); });
  };
  return there(theirs) > there(names) ? theirs : names;
}

}  // namespace

std::string LoadedWeights::text() const {
  std::string found = std::to_string(loaded) + " tensors are from " + file.string();
  if (!missing.empty()) found += "; it has not " + listed(missing);
  if (!other_shape.empty()) found += "; of another shape are " + listed(other_shape);
  if (!unexpected.empty()) found += "; not used are " + listed(unexpected);
  return found;
}

fs::path weights_file(const fs::path& from) {
  if (fs::is_regular_file(from)) return from;
  for (const char* place : {"", "checkpoints/best", "checkpoints/last"})
    for (const char* name : {"ema.safetensors", "model.safetensors"})
      if (has_arrays(from / place, name)) return from / place / name;
  refuse(from.string() + (fs::exists(from) ? " has no network in it" : " does not exist") +
         ": name a safetensors file, a checkpoint, or the folder of a run that has one");
}

LoadedWeights load_weights(const Network& network, const fs::path& from, std::string_view model, bool strict) {
  LoadedWeights result;
  result.file = weights_file(from);
  const std::string extension = result.file.extension();
  if (extension == ".pt" || extension == ".pth" || extension == ".bin")
    refuse(result.file.string() +
           " is no safetensors file: in Python safetensors.torch.save_file(model.state_dict(), FILE) makes one");
  std::map<std::string, Array> arrays = by_name(arrays_of(result.file.parent_path(), result.file.filename(), true));
  std::vector<std::pair<at::Tensor, Array>> copies;
  std::vector<std::string> own;
  const std::vector<nn::NamedTensor> all = tensors_of(network).all();
  for (const auto& [name, tensor] : all) own.push_back(name);
  const std::map<std::string, std::string> names = names_in(arrays, own, model);
  for (const auto& [name, tensor] : all) {
    const auto found = arrays.find(names.at(name));
    if (found == arrays.end()) {
      if (!name.ends_with(batches)) result.missing.push_back(name);
      continue;
    }
    if (tensor.sizes() == at::IntArrayRef(found->second.shape()))
      copies.emplace_back(tensor, found->second);
    else
      result.other_shape.push_back(name);
    arrays.erase(found);
  }
  for (const auto& [name, array] : arrays) result.unexpected.push_back(name);
  result.loaded = copies.size();
  const bool fits = result.missing.empty() && result.other_shape.empty() && result.unexpected.empty();
  if (copies.empty()) refuse(result.text() + ": it is of another network");
  if (strict && !fits) refuse(result.text() + ": say model.strict=false to begin with those that fit");
  const at::NoGradGuard no_grad;
  for (auto& [tensor, array] : copies) tensor.copy_(to_tensor(array));
  return result;
}

void begin_with_weights(Network& network, const Config& config) {
  if (config.model.from.empty() || (config.checkpoint.resumes() && has_checkpoint(config.run))) return;
  try {
    network.weights = load_weights(network, config.model.from, config.model.name, config.model.strict).text();
  } catch (const Error& error) {
    throw Error(error.code(), "model.from: " + std::string(error.what()));
  }
}

}  // namespace tutti::engine
