#include "engine/models/parallel/parts.hpp"

#include <ATen/Functions.h>
#include <c10/core/GradMode.h>
#include <c10/util/accumulate.h>

#include <cmath>
#include <utility>

#include "nn/synchronize.hpp"
#include "tutti/status.hpp"

namespace tutti::engine {

NetworkParts::NetworkParts(Mesh mesh, Layout layout, std::vector<nn::ParameterPart> parts,
                           const std::map<std::string, std::vector<std::int64_t>, std::less<>>& wholes,
                           std::vector<LayerCost> costs)
    : mesh_(std::move(mesh)), layout_(std::move(layout)), costs_(std::move(costs)) {
  for (nn::ParameterPart& part : parts) {
    bool is_replica = true;
    for (const Box& box : part.boxes) is_replica = is_replica && box == nn::whole_box(part.sizes);
    if (!is_replica || wholes.at(part.name) != part.sizes)
      places_.emplace(part.name, Place{wholes.at(part.name), part.sizes, std::move(part.boxes), part.group});
  }
}

const NetworkParts::Place* NetworkParts::find(const std::string& name) const {
  const auto found = places_.find(name);
  if (found != places_.end()) return &found->second;
  const std::size_t dot = name.rfind('.');
  const auto parameter = dot == name.npos ? places_.end() : places_.find(name.substr(0, dot));
  return parameter == places_.end() ? nullptr : &parameter->second;
}

std::vector<nn::NamedTensor> NetworkParts::whole(const std::vector<nn::NamedTensor>& mine) const {
  const at::NoGradGuard no_grad;
  if (mesh_.rank("data") > 0) return {};
  std::vector<nn::NamedTensor> all;
  for (const auto& [name, tensor] : mine) {
    const Place* place = find(name);
    if (place == nullptr || tensor.dim() == 0) {  // a replica, or a step counter
      all.emplace_back(name, tensor);
      continue;
    }
    std::vector<Box> want(place->boxes.size(), Box(place->sizes.size(), Interval{0, 0}));
    want.front() = nn::whole_box(place->sizes);
    const BoxPlan plan = plan_boxes(place->boxes, want, place->group->rank());
    const at::Tensor part = tensor.detach();
    const at::Tensor found = place->group->finish(plan, part, place->group->start(plan, part));
    all.emplace_back(name, place->group->rank() == 0 ? found.reshape(place->whole) : found);
  }
  return all;
}

at::Tensor NetworkParts::part_of(const std::string& name, const at::Tensor& whole) const {
  const Place* place = find(name);
  if (place == nullptr || whole.dim() == 0) return whole;
  if (whole.sizes() != at::IntArrayRef(place->whole))
    throw Error(Code::invalid, "'" + name + "' is " + c10::str(whole.sizes()) + ", and the model's " +
                                   c10::str(at::IntArrayRef(place->whole)) + ": it is of another model");
  const Box& mine = place->boxes[static_cast<std::size_t>(place->group->rank())];
  return nn::slice(whole.reshape(place->sizes), nn::whole_box(place->sizes), mine).contiguous();
}

double NetworkParts::gradient_norm(const std::vector<nn::NamedTensor>& parameters) const {
  const at::NoGradGuard no_grad;
  double replicas = 0;
  std::vector<std::pair<nn::Group, double>> groups;  // in the parameters' order, the same on all ranks
  for (const auto& [name, tensor] : parameters) {
    const double square = tensor.grad().defined() ? std::pow(tensor.grad().norm().item<double>(), 2) : 0;
    const auto place = places_.find(name);
    if (place == places_.end()) {
      replicas += square;
      continue;
    }
    auto sum = groups.begin();
    while (sum != groups.end() && sum->first != place->second.group) ++sum;
    if (sum == groups.end()) sum = groups.insert(sum, {place->second.group, 0});
    sum->second += square;
  }
  for (const auto& [group, square] : groups)
    replicas += group->allreduce(at::scalar_tensor(square, at::kDouble)).item<double>();
  return std::sqrt(replicas);
}

void NetworkParts::check_replicas(const std::vector<nn::NamedTensor>& parameters,
                                  const std::vector<nn::NamedTensor>& buffers) const {
  for (const Mesh::Axis& axis : mesh_.axes()) {
    if (axis.size == 1) continue;
    std::vector<nn::NamedTensor> alike;
    for (const nn::NamedTensor& parameter : parameters) {
      const auto place = places_.find(parameter.first);
      const bool is_cut = place != places_.end() &&
                          ("," + place->second.group->axes() + ",").find("," + axis.name + ",") != std::string::npos;
      if (!is_cut) alike.push_back(parameter);
    }
    nn::check_replicas(alike, buffers, mesh_[axis.name]);
  }
}

std::int64_t NetworkParts::count(const std::vector<nn::NamedTensor>& parameters) const {
  std::int64_t numbers = 0;
  for (const auto& [name, tensor] : parameters) {
    const auto place = places_.find(name);
    numbers += place == places_.end() ? tensor.numel() : c10::multiply_integers(place->second.whole);
  }
  return numbers;
}

}  // namespace tutti::engine
