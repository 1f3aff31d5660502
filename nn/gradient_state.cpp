// How gradients are grouped into buckets: at first from the last parameter to the first; after the first step in the
// order in which gradients became ready.
#include "nn/gradient_state.hpp"

#include <ATen/Functions.h>
#include <c10/core/GradMode.h>

#include <algorithm>
#include <map>

#include "nn/tensor.hpp"

namespace tutti::nn {

void GradientSync::State::build(const std::vector<std::size_t>& wanted) {
  const std::vector<NamedTensor> kept = codec_state();
  order = wanted;
  buckets.clear();
  std::vector<ParameterSize> sizes;
  for (const Slot& slot : slots)
    sizes.push_back({dtype_of(slot.parameter), static_cast<std::size_t>(slot.parameter.numel())});
  for (const BucketPlan& plan : plan_buckets(sizes, order, options.first_bytes, options.cap_bytes)) make_bucket(plan);
  if (!kept.empty()) load_codec_state(kept);
  begin();
}

void GradientSync::State::make_bucket(const BucketPlan& plan) {
  const bool as_it_is = !options.compression;
  const std::size_t elements = plan.count + (as_it_is ? plan.parameters.size() : 0);
  Bucket bucket;
  bucket.memory = tensor_device->allocate(communicator, elements * size_of(plan.dtype));
  bucket.all = Buffer(bucket.memory.get(), elements, plan.dtype, tensor_device->where());
  // The tensor shares ownership of the memory, because a parameter's grad() may outlive this object.
  const at::ScalarType type = slots[plan.parameters.front()].parameter.scalar_type();
  const auto tensor_at = [&](std::size_t offset, at::IntArrayRef sizes) {
    return tensor_device->tensor(bucket.memory, offset * size_of(plan.dtype), sizes, type);
  };
  FlatBucket flat{.gradients = tensor_at(0, {static_cast<std::int64_t>(plan.count)}), .parts = {}};
  for (std::size_t i = 0; i < plan.parameters.size(); ++i) {
    Slot& slot = slots[plan.parameters[i]];
    slot.view = tensor_at(plan.offsets[i], slot.parameter.sizes());
    slot.bucket = buckets.size();
    slot.place = i;
    flat.parts.emplace_back(slot.name, slot.view);
  }
  bucket.slots = plan.parameters;
  bucket.exchange = std::make_unique<Exchange>(communicator, tensor_device, stats);
  if (as_it_is)
    bucket.presence = tensor_at(plan.count, {static_cast<std::int64_t>(plan.parameters.size())});
  else
    bucket.codec = options.compression->codec(flat, *bucket.exchange);
  buckets.push_back(std::move(bucket));
}

/// Agrees on the order of the buckets: the order in which gradients became ready on rank 0, in the first step in which
/// rank 0 had gradients. Parameters without a gradient come last. Collective; blocks.
void GradientSync::State::agree() {
  if (agreed || !options.reorder || communicator.size() == 1 || slots.empty()) return;
  std::vector<std::int64_t> found(slots.size(), -1);
  if (communicator.rank() == 0 && !arrivals.empty()) {
    std::vector<bool> came(slots.size());
    for (const std::int64_t each : arrivals) came[static_cast<std::size_t>(each)] = true;
    auto next = std::ranges::copy(arrivals, found.begin()).out;
    for (const std::size_t each : order)
      if (!came[each]) *next++ = static_cast<std::int64_t>(each);
  }
  communicator.broadcast(found, 0).wait();
  if (found.front() < 0) return;
  agreed = true;
  const std::vector<std::size_t> wanted(found.begin(), found.end());
  if (wanted != order) build(wanted);
}

std::vector<NamedTensor> GradientSync::State::codec_state() const {
  std::vector<NamedTensor> all;
  for (const Bucket& bucket : buckets)
    if (bucket.codec)
      for (NamedTensor& each : bucket.codec->state()) all.push_back(std::move(each));
  return all;
}

void GradientSync::State::load_codec_state(const std::vector<NamedTensor>& kept) {
  const at::NoGradGuard no_grad;
  std::map<std::string, at::Tensor> by_name(kept.begin(), kept.end());
  for (const auto& [name, tensor] : codec_state()) {
    const auto found = by_name.find(name);
    if (found == by_name.end() || found->second.sizes() != tensor.sizes())
      throw Error(Code::invalid, "the state that was kept has no '" + name +
                                     "' of this shape: it is of another network or compression, so go on without it");
    tensor.copy_(found->second);
  }
}

std::vector<NamedTensor> GradientSync::state() const {
  std::vector<NamedTensor> all = state_->codec_state();
  if (!state_->agreed) return all;
  const std::vector<std::int64_t> order(state_->order.begin(), state_->order.end());
  all.emplace_back("sync.order", at::tensor(order, at::TensorOptions().dtype(at::kLong)));
  return all;
}

void GradientSync::load_state(const std::vector<NamedTensor>& kept) {
  const auto found = std::ranges::find(kept, "sync.order", &NamedTensor::first);
  if (found != kept.end()) {
    const at::Tensor order = found->second.to(at::kCPU, at::kLong).contiguous();
    const std::vector<std::size_t> wanted(order.data_ptr<std::int64_t>(),
                                          order.data_ptr<std::int64_t>() + order.numel());
    std::vector<std::size_t> now = state_->order, then = wanted;
    std::ranges::sort(now);
    std::ranges::sort(then);
    if (now != then)
      throw Error(Code::invalid, "the state that was kept is of a network with other parameters: go on without it");
    state_->build(wanted);
    state_->agreed = true;
  }
  state_->load_codec_state(kept);
}

}  // namespace tutti::nn
