#include "engine/models/parallel/parallel.hpp"

#include <ATen/Functions.h>
#include <torch/utils.h>

#include <algorithm>
#include <utility>

#include "engine/models/makers.hpp"
#include "engine/models/parallel/blocks.hpp"
#include "engine/models/parallel/chain.hpp"
#include "engine/models/parallel/gpt.hpp"
#include "engine/models/parallel/parts.hpp"
#include "engine/models/parallel/sparse.hpp"
#include "tutti/status.hpp"

namespace tutti::engine {
namespace {

struct Over {
  models::Made made;
  std::vector<LayerCost> costs;
};

bool is_one_of(const std::string& name, std::initializer_list<const char*> names) {
  return std::ranges::find(names, name) != names.end();
}

Over made_over(const ModelSettings& settings, const Layout& layout, const SplitChoices& choices) {
  const at::ScalarType type = settings.dtype == "float64" ? at::kDouble : at::kFloat;
  const auto finish = [&](const auto& module) {
    module->to(type);
    return Over{models::made(module), module->costs()};
  };
  const auto refuse = [&](const std::string& why) {
    throw Error(Code::unsupported, "model=" + settings.name + " cannot be split over mesh " + layout.mesh + ": " + why);
  };
  const bool is_chain = !is_one_of(settings.name, {"gpt", "sparse", "googlenet", "resnet18", "resnet50"});
  if (layout.sequence->size() > 1 && settings.name != "gpt") refuse("sequence is for model=gpt");
  if (!is_chain) {
    const Options options(choose("model", model_table(), settings.name), settings.options);
    const models::Request request{options, settings.input, settings.classes};
    if (settings.name == "gpt") return finish(std::make_shared<ParallelGpt>(request, layout, choices));
    if (settings.name != "sparse") return finish(std::make_shared<ParallelBlocks>(request, layout, choices));
    Over over = finish(std::make_shared<SparseTower>(request, layout, choices));
    over.made.after_update = models::filters_of_length_1(over.made.module);
    return over;
  }
  return finish(
      std::make_shared<ParallelChain>(settings.input, models::layers_of(settings), settings.classes, layout, choices));
}

void refuse_depth(const ModelSettings& settings, const std::vector<Mesh::Axis>& axes) {
  const auto depth = std::ranges::find(axes, "depth", &Mesh::Axis::name);
  if (depth != axes.end() && depth->size > 1)
    throw Error(Code::unsupported, "model=" + settings.name + " cannot be split over mesh " + Mesh::name_of(axes) +
                                       ": images have no depth; volumes are for nn::SpaceConv");
}

/// The buffer that is called `name` in the sequential network.
at::Tensor find_buffer(const torch::OrderedDict<std::string, at::Tensor>& mine, const std::string& name) {
  if (const at::Tensor* found = mine.find(name)) return *found;
  const std::size_t dot = name.rfind('.');
  // SpaceBatchNorm has its buffers in a submodule `norm`
  return mine[name.substr(0, dot) + ".norm" + name.substr(dot)];
}

}  // namespace

Network split_model(const Network& sequential, const ModelSettings& settings, const Mesh& mesh,
                    const SplitChoices& choices) {
  refuse_depth(settings, mesh.axes());
  const Layout layout = layout_of(mesh, choices.batch_norm);
  auto [made, costs] = made_over(settings, layout, choices);
  const torch::NoGradGuard no_grad;
  std::map<std::string, std::vector<std::int64_t>, std::less<>> wholes;
  for (const auto& parameter : sequential.module->named_parameters())
    wholes.emplace(parameter.key(), parameter.value().sizes().vec());
  const auto parts =
      std::make_shared<NetworkParts>(mesh, layout, nn::parameter_parts(*made.module), wholes, std::move(costs));
  const auto mine = made.module->named_parameters();
  auto tensors = std::make_shared<NetworkTensors>();
  for (const auto& parameter : sequential.module->named_parameters()) {
    at::Tensor here = mine[parameter.key()];
    here.copy_(parts->part_of(parameter.key(), parameter.value()).reshape(here.sizes()));
    tensors->parameters.emplace_back(parameter.key(), here);
  }
  const auto buffers = made.module->named_buffers();
  for (const auto& buffer : sequential.module->named_buffers()) {
    at::Tensor here = find_buffer(buffers, buffer.key());
    here.copy_(buffer.value());
    tensors->buffers.emplace_back(buffer.key(), here);
  }
  return {.module = made.module,
          .forward = made.forward,
          .tensors = tensors,
          .after_update = made.after_update,
          .parts = parts};
}

Network make_parallel_model(const ModelSettings& settings, const Mesh& mesh, const SplitChoices& choices) {
  return split_model(make_model(settings), settings, mesh, choices);
}

std::vector<LayerCost> plan_parallel_model(const ModelSettings& settings, const std::vector<Mesh::Axis>& axes, int rank,
                                           const SplitChoices& choices) {
  refuse_depth(settings, axes);
  return made_over(settings, planned_layout(axes, rank), choices).costs;
}

}  // namespace tutti::engine
