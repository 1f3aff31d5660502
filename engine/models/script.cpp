// TorchScript files as networks.
#include <torch/csrc/jit/api/module.h>
#include <torch/csrc/jit/serialization/import.h>

#include <algorithm>
#include <map>

#include "engine/models/makers.hpp"
#include "tutti/status.hpp"

namespace tutti::engine::models {
namespace {

/// One level of a dotted name; LibTorch does not allow dots in names.
class Names : public torch::nn::Module {
 public:
  /// Returns the module that `name` belongs to, and removes its path from `name`, so that the last part is left.
  Names& place_of(std::string& name) {
    const std::size_t dot = name.find('.');
    if (dot == name.npos) return *this;
    std::shared_ptr<Names>& below = below_[name.substr(0, dot)];
    if (!below) below = register_module(name.substr(0, dot), std::make_shared<Names>());
    name.erase(0, dot + 1);
    return below->place_of(name);
  }
  using torch::nn::Module::register_buffer;
  using torch::nn::Module::register_parameter;

 private:
  std::map<std::string, std::shared_ptr<Names>> below_;
};

/// A module that shares the script's tensors and forwards train() to it.
class Script final : public Names {
 public:
  explicit Script(torch::jit::Module script) : script_(std::move(script)) {
    for (const auto& each : script_.named_parameters()) {
      std::string name = each.name;
      place_of(name).register_parameter(name, each.value, each.value.requires_grad());
    }
    for (const auto& each : script_.named_buffers()) {
      std::string name = each.name;
      place_of(name).register_buffer(name, each.value);
    }
  }

  void train(bool on = true) override {
    Names::train(on);
    script_.train(on);
  }

  at::Tensor forward(const at::Tensor& batch) { return script_.forward({batch}).toTensor(); }

 private:
  torch::jit::Module script_;
};

}  // namespace

Made load_script(const std::filesystem::path& file) {
  try {
    const auto script = std::make_shared<Script>(torch::jit::load(file.string()));
    if (std::ranges::none_of(script->parameters(), [](const at::Tensor& each) { return each.requires_grad(); }))
      refuse(file.string() +
             " has no parameter that requires a gradient: save the module before "
             "torch.jit.freeze(), with what is to be trained as parameters");
    return made(script);
  } catch (const c10::Error& error) {
    const std::string why = error.what_without_backtrace();
    refuse(file.string() + " cannot be loaded as TorchScript (" + why.substr(0, why.find('\n')) +
           "): write it with torch.jit.save");
  }
}

}  // namespace tutti::engine::models
