#include "nn/parameter_average.hpp"

#include <ATen/Functions.h>
#include <c10/core/GradMode.h>

#include <algorithm>
#include <map>
#include <utility>

#include "nn/tensor.hpp"
#include "nn/tensor_device.hpp"

namespace tutti::nn {
namespace {

/// The parameters of a layer that have the same dtype.
struct Part {
  at::Tensor flat;
  std::vector<std::pair<at::Tensor, at::Tensor>> places;  ///< a parameter, and its view into `flat`
};

std::string layer_of(const std::string& parameter) {
  const std::size_t dot = parameter.rfind('.');
  return dot == parameter.npos ? std::string() : parameter.substr(0, dot);
}

}  // namespace

struct ParameterAverage::Layer {
  std::string name;
  std::vector<NamedTensor> parameters = {};
  std::vector<Part> parts = {};
  std::size_t exchanges = 0;
  bool open = false;
  std::unique_ptr<Exchange> exchange = {};  // last, so that it is destroyed first: its Works wait for the collectives

  void lay_out();
};

void ParameterAverage::Layer::lay_out() {
  std::map<at::ScalarType, std::int64_t> counts;
  for (const auto& [parameter, tensor] : parameters) counts[tensor.scalar_type()] += tensor.numel();
  for (const auto& [type, count] : counts) {
    Part part{.flat = exchange->allocate({count}, type), .places = {}};
    std::int64_t at = 0;
    for (const auto& [parameter, tensor] : parameters) {
      if (tensor.scalar_type() != type) continue;
      part.places.emplace_back(tensor.detach(), part.flat.narrow(0, at, tensor.numel()).view(tensor.sizes()));
      at += tensor.numel();
    }
    parts.push_back(std::move(part));
  }
}

ParameterAverage::ParameterAverage(std::vector<NamedTensor> parameters, Communicator communicator, std::size_t period)
    : period_(period) {
  if (period == 0) throw Error(Code::invalid, "parameters are averaged every so many steps, from 1 up, not every 0");
  keep_distinct(parameters);
  const at::Device device = parameters.empty() ? at::Device(at::kCPU) : parameters.front().second.device();
  const std::shared_ptr<TensorDevice> tensor_device = tensor_device_of(device, communicator);
  for (const NamedTensor& each : parameters) {
    if (each.second.device() != device || !at::isFloatingType(each.second.scalar_type()))
      throw Error(Code::unsupported, "ParameterAverage takes floating-point tensors, all on one device, which '" +
                                         each.first + "' is not; move the network to one");
    const std::string name = layer_of(each.first);
    auto found = std::ranges::find_if(layers_, [&](const auto& one) { return one->name == name; });
    if (found == layers_.end()) found = layers_.insert(found, std::make_unique<Layer>(Layer{.name = name}));
    (*found)->parameters.push_back(each);
  }
  for (const auto& layer : layers_) {
    layer->exchange = std::make_unique<Exchange>(communicator, tensor_device, stats_);
    layer->lay_out();
  }
}

ParameterAverage::ParameterAverage(const torch::nn::Module& module, Communicator communicator, std::size_t period)
    : ParameterAverage(named_parameters(module), std::move(communicator), period) {}

ParameterAverage::~ParameterAverage() = default;

std::vector<std::string> ParameterAverage::layers() const {
  std::vector<std::string> names;
  for (const auto& layer : layers_) names.push_back(layer->name);
  return names;
}

ParameterAverage::Layer& ParameterAverage::named(const std::string& layer) const {
  for (const auto& each : layers_)
    if (each->name == layer) return *each;
  throw Error(Code::invalid, "there is no layer '" + layer + "': layers() lists them");
}

void ParameterAverage::begin(Layer& layer) {
  if (layer.open) throw Error(Code::invalid, "layer '" + layer.name + "' was begun twice: finish() it before its use");
  const at::NoGradGuard no_grad;
  for (const Part& part : layer.parts) {
    for (const auto& [parameter, place] : part.places) place.copy_(parameter);
    layer.exchange->allreduce(part.flat);
  }
  layer.open = true;
  ++layer.exchanges;
}

void ParameterAverage::end(Layer& layer) {
  if (!layer.open) return;
  layer.open = false;
  layer.exchange->wait();
  const at::NoGradGuard no_grad;
  for (const Part& part : layer.parts)
    for (const auto& [parameter, place] : part.places) parameter.copy_(place);
}

bool ParameterAverage::next_step() {
  for (const auto& layer : layers_)
    if (layer->open)
      throw Error(Code::invalid, "layer '" + layer->name + "' is still on its way: finish() it before its next use");
  return ++steps_ % period_ == 0;
}

void ParameterAverage::start(const std::string& layer) {
  Layer& one = named(layer);
  if (steps_ > 0 && steps_ % period_ == 0) begin(one);
}

void ParameterAverage::finish(const std::string& layer) { end(named(layer)); }

bool ParameterAverage::step() {
  if (!next_step()) return false;
  now();
  return true;
}

void ParameterAverage::now() {
  for (const auto& layer : layers_) begin(*layer);
  for (const auto& layer : layers_) end(*layer);
}

std::size_t ParameterAverage::exchanges(const std::string& layer) const { return named(layer).exchanges; }

}  // namespace tutti::nn
