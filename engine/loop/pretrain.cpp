#include "engine/loop/pretrain.hpp"

#include <ATen/Functions.h>
#include <torch/nn/module.h>

#include <filesystem>
#include <utility>

#include "engine/checkpoint/store.hpp"
#include "engine/loop/run_folder.hpp"
#include "engine/models/parallel/parts.hpp"
#include "engine/models/parallel/sparse.hpp"
#include "engine/optimizers/optimizer.hpp"

namespace tutti::engine {
namespace {

/// The filters of a stage, and the filters that reconstruct its input; the same layer if they are tied.
struct Stage final : torch::nn::Module {
  Stage(nn::SpaceLocalFilter low, nn::SpaceLocalFilter high) : encoder(std::move(low)), decoder(std::move(high)) {
    register_module("encoder", encoder);
    if (decoder.get() != encoder.get()) register_module("decoder", decoder);
  }
  nn::SpaceLocalFilter encoder, decoder;
};

Config phase_of(Config config, std::int64_t epochs) {
  config.epochs = epochs;
  config.steps = 0;
  config.run = "none";
  config.checkpoint = {};
  config.validate = {};
  config.stop = {};
  config.schedule.warmup = std::min(config.schedule.warmup, static_cast<double>(epochs));
  config.report = {.progress = config.report.progress, .loss_file = {}};
  return config;
}

/// The shards of a stage's parameters, on the mesh of the network.
std::shared_ptr<const NetworkParts> parts_of(const Network& network, const torch::nn::Module& module) {
  if (!network.parts) return nullptr;
  std::vector<nn::ParameterPart> parts = nn::parameter_parts(module);
  std::map<std::string, std::vector<std::int64_t>, std::less<>> wholes;
  for (const nn::ParameterPart& part : parts) wholes.emplace(part.name, part.sizes);
  return std::make_shared<NetworkParts>(network.parts->mesh(), network.parts->layout(), std::move(parts), wholes,
                                        std::vector<LayerCost>{});
}

std::vector<double> train_stage(const Config& config, const Communicator& world, const Network& network,
                                SparseTower& tower, std::size_t number, const DataSplit& data) {
  const nn::SpaceLocalFilter encoder = tower.filters(number);
  const auto stage = std::make_shared<Stage>(encoder, config.pretrain.tied ? encoder : tower.copy_of(number));
  Task task{
      .network = {.module = stage,
                  .forward = [&tower, number, decoder = stage->decoder, cost = config.pretrain.sparsity](
                                 const at::Tensor& images) { return tower.cost(number, decoder, cost, images); },
                  .tensor_device = network.tensor_device,
                  .tensors = std::make_shared<NetworkTensors>(NetworkTensors{nn::named_parameters(*stage), {}}),
                  .after_update =
                      [raw = stage.get()] {
                        raw->encoder->normalise_filters();
                        if (raw->decoder.get() != raw->encoder.get()) raw->decoder->normalise_filters();
                      },
                  .parts = parts_of(network, *stage)},
      .data = data,
      .loss = [](const at::Tensor& output, const at::Tensor&) { return output.mean(); },
      .metrics = {
          {"cost", [](const at::Tensor& output, const at::Tensor&) { return output.mean().item<double>(); }, false}}};
  return Trainer(phase_of(config, config.pretrain.epochs), world, std::move(task)).run().losses;
}

std::vector<double> train_head(const Config& config, const Communicator& world, const Network& network,
                               const DataSplit& data) {
  NetworkTensors head;
  for (const nn::NamedTensor& each : tensors_of(network).parameters)
    if (each.first.starts_with("head.")) head.parameters.push_back(each);
  Network some = network;
  some.tensors = std::make_shared<NetworkTensors>(std::move(head));
  some.after_update = {};
  const std::vector<nn::NamedTensor> parameters = tensors_of(network).parameters;
  const auto learn = [&](bool all) {
    for (nn::NamedTensor each : parameters)
      if (!each.first.starts_with("head.")) each.second.set_requires_grad(all);
  };
  learn(false);
  std::vector<double> losses =
      Trainer(phase_of(config, config.pretrain.head_epochs), world, {.network = some, .data = data}).run().losses;
  learn(true);
  return losses;
}

}  // namespace

bool wants_pretraining(const Config& config, Communicator& world) {
  if (config.pretrain.epochs == 0 && config.pretrain.head_epochs == 0) return false;
  int goes_on = 0;
  if (config.checkpoint.resumes() && world.rank() == 0)
    goes_on = CheckpointStore(checkpoint_folder(config), 0, false).last().has_value() ? 1 : 0;
  return world.broadcast(goes_on, 0).wait() == 0;
}

Pretraining pretrain(const Config& config, const Communicator& world, const Network& network, const DataSplit& data) {
  auto* tower = dynamic_cast<SparseTower*>(network.module.get());
  if (tower == nullptr)
    refuse("pretrain: model.name=" + config.model.name +
           " has no layers that rebuild what they see: take model=sparse, or leave pretrain out");
  Pretraining found;
  for (std::size_t i = 0; i < tower->stages() && config.pretrain.epochs > 0; ++i)
    found.losses.push_back(train_stage(config, world, network, *tower, i, data));
  if (config.pretrain.head_epochs > 0) found.head_losses = train_head(config, world, network, data);
  return found;
}

}  // namespace tutti::engine
