// The network that a configuration describes: the model, its layout on a mesh, and the device that it is trained on.
#include <memory>

#include "engine/data/data_split.hpp"
#include "engine/loop/device.hpp"
#include "engine/loop/weights.hpp"
#include "engine/models/model.hpp"
#include "engine/models/parallel/parallel.hpp"
#include "engine/models/split.hpp"
#include "engine/trainer.hpp"
#include "nn/tensor_device.hpp"

namespace tutti::engine {
namespace {

ModelSettings settings_of(const Config& config, SampleShape input, std::size_t classes) {
  return {.name = config.model.name,
          .input = std::move(input),
          .classes = static_cast<std::int64_t>(classes),
          .options = config.model.options,
          .seed = static_cast<std::uint64_t>(config.seed),
          .dtype = config.dtype};
}

}  // namespace

Targets targets_of(const DataSplit& data) {
  return {.classes = data.classes, .numbers = data.classes > 0 ? 1 : data.train->get(0)[data.target].count()};
}

ModelSettings settings_of(const Config& config, const DataSplit& data) {
  if (data.inputs.size() != 1)
    refuse("model.name=" + config.model.name + " takes one input, but a sample of " + config.data.source + " has " +
           std::to_string(data.inputs.size()));
  const Sample sample = data.train->get(0);
  const std::size_t outputs = config.model.outputs > 0 ? static_cast<std::size_t>(config.model.outputs)
                                                       : outputs_for(loss_info(config.loss), targets_of(data));
  return settings_of(config, sample[data.inputs[0]].shape(), outputs);
}

Network make_network(const Config& config, const DataSplit& data) {
  Network network = make_model(settings_of(config, data));
  begin_with_weights(network, config);
  return network;
}

Network make_network(const Config& config, const ImageShape& image, std::size_t classes) {
  const auto side = [](std::size_t length) { return static_cast<std::int64_t>(length); };
  Network network = make_model(
      settings_of(config, SampleShape{side(image.channels), side(image.height), side(image.width)}, classes));
  begin_with_weights(network, config);
  return network;
}

void spread(Network& network, const Config& config, const DataSplit& data, Communicator& world) {
  if (!splits_network(config, world.size())) return;
  config.check_split(world.size());
  const Mesh mesh(world, mesh_axes(config, world.size()));
  network = split_model(network, settings_of(config, data), mesh, split_choices(config));
}

void choose_device(Network& network, const Config& config, Communicator& world) {
  std::string why_not;
  if (config.device != "cpu") {
    Offer offer{.torch_has_cuda = nn::torch_has_cuda(), .torch_devices = nn::torch_cuda_devices(), .why_not = {}};
    if (offer.torch_has_cuda) {  // without CUDA the accelerator is not queried
      offer.why_not = world.accelerator().why_not();
      offer.devices = static_cast<int>(world.accelerator().devices().size());
    }
    why_not = why_no_device(offer);
  }
  const DeviceChoice choice = choose_device(config.device, why_not, world);
  network.why_here = choice.why_not;
  network.tensor_device =
      choice.on_device
          ? nn::tensor_device_of(at::Device(at::kCUDA, static_cast<c10::DeviceIndex>(world.device())), world)
          : std::make_shared<nn::TensorDevice>();
}

}  // namespace tutti::engine
