#include "engine/strategies/inner.hpp"

#include <ATen/Functions.h>
#include <c10/core/GradMode.h>

#include <algorithm>

#include "engine/optimizers/optimizer.hpp"
#include "engine/strategies/counts.hpp"

namespace tutti::engine::exchange {

InnerState::InnerState(const Axes& axes, const Replica& replica, bool with_buffers) : axes_(axes), replica_(replica) {
  for (const nn::NamedTensor& each : replica_.buffers)
    if (each.second.is_floating_point()) buffer_tensors_.push_back(each);
  if (with_buffers)
    for (auto& group : by_type(buffer_tensors_)) buffers_.emplace_back(group, replica_.world, *replica_.tensor_device);
}

void InnerState::average(std::vector<Flat>& flats, nn::SyncStats& given) {
  nn::Exchange exchange(replica_.world, replica_.tensor_device, given);
  for (Flat& flat : flats) flat.take();
  replica_.tensor_device->note_computed();
  for (Flat& flat : flats) exchange.allreduce(flat.buffer(), avg);
  exchange.wait();
  for (const Flat& flat : flats) flat.give();
}

void InnerState::sync(nn::SyncStats& given) {
  ++syncs_;
  if (!buffers_.empty()) average(buffers_, given);
  if (axes_.inner == Axes::Inner::keep || syncs_ % axes_.inner_every != 0) return;
  OptimizerState state = replica_.optimizer.state();
  if (axes_.inner == Axes::Inner::reset) {
    state.tensors.clear();
    replica_.optimizer.load_state(state);
    return;
  }
  std::vector<nn::NamedTensor> slots;
  for (const nn::NamedTensor& each : state.tensors)
    if (each.second.is_floating_point() && each.second.dim() > 0) slots.push_back(each);
  if (slots.size() != memory_tensors_) {
    memory_.clear();
    for (auto& group : by_type(slots)) memory_.emplace_back(group, replica_.world, *replica_.tensor_device);
    memory_tensors_ = slots.size();
  }
  average(memory_, given);
}

std::vector<nn::NamedTensor> InnerState::state() const {
  std::vector<nn::NamedTensor> all{counted("strategy.syncs", {syncs_})};
  for (const auto& [name, tensor] : buffer_tensors_) all.emplace_back(name + ".own", tensor);
  return all;
}

void InnerState::load_state(const std::vector<nn::NamedTensor>& state) {
  const at::NoGradGuard no_grad;
  syncs_ = counted(state, "strategy.syncs", 1)[0];
  for (auto& [name, tensor] : buffer_tensors_) {
    const auto found = std::ranges::find(state, name + ".own", &nn::NamedTensor::first);
    if (found != state.end()) tensor.copy_(found->second);
  }
}

}  // namespace tutti::engine::exchange
