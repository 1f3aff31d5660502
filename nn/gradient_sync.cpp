// A hook on each parameter's gradient accumulator moves the gradient into its bucket; the
// bucket leaves when its last gradient is in and all buckets before it have left.
//
// Which ranks had a gradient must be known everywhere afterwards. It costs no collective of its
// own: behind its gradients a bucket carries one element per parameter, 1 where there was one.
#include "nn/gradient_sync.hpp"

#include <torch/csrc/autograd/function.h>
#include <torch/csrc/autograd/function_hook.h>
#include <torch/csrc/autograd/variable.h>

#include <chrono>
#include <string>
#include <utility>

#include "nn/bucket.hpp"
#include "nn/module.hpp"
#include "nn/site.hpp"
#include "nn/tensor.hpp"

namespace tutti::nn {
namespace {

double seconds_since(std::chrono::steady_clock::time_point begin) {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
}

/// A shared_ptr or, in newer LibTorch, an intrusive_ptr to the accumulating node.
using Accumulator = decltype(torch::autograd::impl::grad_accumulator(std::declval<const at::Tensor&>()));

struct Slot {
  std::string name;
  at::Tensor parameter;
  at::Tensor view;  ///< its place in the bucket
  std::size_t bucket = 0;
  std::size_t place = 0;  ///< within the bucket
  bool ready = false;     ///< the view holds this backward's gradient
  Accumulator accumulator = {};
  std::uintptr_t hook = 0;
};

struct Bucket {
  std::shared_ptr<std::byte> memory;
  Buffer all;           ///< gradients and presence
  at::Tensor presence;  ///< one element per parameter
  std::vector<std::size_t> slots;
  std::size_t missing = 0;
  bool sent = false;
  Work work;  // after `memory`: destroyed, and so waited for, before it
};

class Hook : public torch::autograd::FunctionPostHook {
 public:
  explicit Hook(std::function<void()> call) : call_(std::move(call)) {}
  torch::autograd::variable_list operator()(const torch::autograd::variable_list& outputs,
                                            const torch::autograd::variable_list&) override {
    call_();
    return outputs;
  }

 private:
  std::function<void()> call_;
};

}  // namespace

struct GradientSync::State {
  State(Communicator world, std::shared_ptr<Site> place) : communicator(std::move(world)), site(std::move(place)) {}

  Communicator communicator;
  const std::shared_ptr<Site> site;
  std::vector<Slot> slots;
  std::vector<Bucket> buckets;
  std::size_t next_bucket = 0;  ///< the first that has not left
  std::size_t missing = 0;      ///< gradients of this backward that are not there yet
  double factor = 1;            ///< share * size, because the reduction is a mean
  int muted = 0;                ///< NoSync guards alive
  SyncStats stats;
  std::chrono::steady_clock::time_point left = {};  ///< when the first bucket did

  void make_bucket(const BucketPlan& plan);
  void begin();
  void arrived(std::size_t slot);
  void pack(Slot& slot);
  void send_ready();
  void send(Bucket& bucket);
  void fill_absent();
  void publish();
};

void GradientSync::State::make_bucket(const BucketPlan& plan) {
  const std::size_t elements = plan.count + plan.parameters.size();
  Bucket bucket;
  bucket.memory = site->allocate(communicator, elements * size_of(plan.dtype));
  bucket.all = Buffer(bucket.memory.get(), elements, plan.dtype, site->where());
  // A tensor keeps the memory alive: a parameter's grad() may outlive this object.
  const at::ScalarType type = slots[plan.parameters.front()].parameter.scalar_type();
  const auto tensor_at = [&](std::size_t offset, at::IntArrayRef sizes) {
    return site->tensor(bucket.memory, offset * size_of(plan.dtype), sizes, type);
  };
  for (std::size_t i = 0; i < plan.parameters.size(); ++i) {
    Slot& slot = slots[plan.parameters[i]];
    slot.view = tensor_at(plan.offsets[i], slot.parameter.sizes());
    slot.bucket = buckets.size();
    slot.place = i;
  }
  bucket.presence = tensor_at(plan.count, {static_cast<std::int64_t>(plan.parameters.size())});
  bucket.slots = plan.parameters;
  buckets.push_back(std::move(bucket));
}

void GradientSync::State::begin() {
  next_bucket = 0;
  missing = slots.size();
  factor = 1;
  for (Slot& slot : slots) slot.ready = false;
  for (Bucket& bucket : buckets) {
    bucket.missing = bucket.slots.size();
    bucket.sent = false;
  }
}

void GradientSync::State::arrived(std::size_t index) {
  if (muted > 0) return;
  Slot& slot = slots[index];
  if (slot.ready)
    throw Error(Code::invalid,
                "a gradient arrived twice before finish(): call finish() after every backward, or hold a no_sync() "
                "guard during all but the last backward of a step");
  pack(slot);
  site->note_computed();  // here, as this gradient's stream may be another one than the bucket's last one
  send_ready();
}

void GradientSync::State::pack(Slot& slot) {
  const at::NoGradGuard no_grad;
  at::Tensor& gradient = slot.parameter.mutable_grad();
  if (gradient.layout() != at::kStrided || gradient.scalar_type() != slot.view.scalar_type())
    throw Error(Code::unsupported, "GradientSync takes dense gradients of the parameter's own dtype");
  if (gradient.data_ptr() != slot.view.data_ptr()) {
    if (factor == 1)
      slot.view.copy_(gradient);
    else
      at::mul_out(slot.view, gradient, at::scalar_tensor(factor, slot.view.options()));
    gradient = slot.view;
  } else if (factor != 1) {
    slot.view.mul_(factor);
  }
  Bucket& bucket = buckets[slot.bucket];
  bucket.presence.select(0, static_cast<std::int64_t>(slot.place)).fill_(1);
  slot.ready = true;
  --bucket.missing;
  --missing;
}

void GradientSync::State::send_ready() {
  while (next_bucket < buckets.size() && buckets[next_bucket].missing == 0) {
    if (missing > 0) ++stats.overlapped;
    send(buckets[next_bucket++]);
  }
}

void GradientSync::State::send(Bucket& bucket) {
  if (&bucket == buckets.data()) left = std::chrono::steady_clock::now();
  bucket.work = communicator.allreduce(bucket.all, avg, site->options());
  bucket.sent = true;
  ++stats.collectives;
}

/// Gradients that did not arrive: left over from a no_sync() backward, or none.
void GradientSync::State::fill_absent() {
  for (Slot& slot : slots) {
    if (slot.ready) continue;
    if (slot.parameter.grad().defined()) {
      pack(slot);
    } else {
      slot.view.zero_();
      buckets[slot.bucket].presence.select(0, static_cast<std::int64_t>(slot.place)).zero_();
    }
  }
}

/// Where another rank had a gradient, the mean is ours too.
void GradientSync::State::publish() {
  for (Bucket& bucket : buckets) {
    if (bucket.missing == 0) continue;
    const at::Tensor presence = bucket.presence.to(at::TensorOptions().device(at::kCPU).dtype(at::kDouble));
    const double* present = presence.data_ptr<double>();
    for (std::size_t i = 0; i < bucket.slots.size(); ++i) {
      Slot& slot = slots[bucket.slots[i]];
      if (!slot.ready && present[i] > 0) slot.parameter.mutable_grad() = slot.view;
    }
  }
}

GradientSync::GradientSync(std::vector<NamedTensor> parameters, Communicator communicator, const BucketOptions& options,
                           std::shared_ptr<Site> site) {
  keep_distinct(parameters);  // a tied weight has one gradient, and so one place
  std::erase_if(parameters, [](const NamedTensor& one) { return !one.second.requires_grad(); });  // frozen
  const at::Device device = parameters.empty() ? at::Device(at::kCPU) : parameters.front().second.device();
  if (!site) site = site_of(device, communicator);
  state_ = std::make_shared<State>(std::move(communicator), std::move(site));
  std::vector<ParameterSize> sizes;
  for (auto& [name, parameter] : parameters) {
    if (parameter.device() != device || !parameter.is_leaf() || !at::isFloatingType(parameter.scalar_type()))
      throw Error(Code::unsupported, "GradientSync takes floating-point leaf tensors, all on one device, which '" +
                                         name + "' is not; move the network to one");
    sizes.push_back({dtype_of(parameter), static_cast<std::size_t>(parameter.numel())});
    state_->slots.push_back({.name = std::move(name), .parameter = std::move(parameter), .view = {}});
  }
  for (const BucketPlan& plan : plan_buckets(sizes, options.first_bytes, options.cap_bytes)) state_->make_bucket(plan);
  state_->begin();
  for (std::size_t i = 0; i < state_->slots.size(); ++i) {
    Slot& slot = state_->slots[i];
    slot.accumulator = torch::autograd::impl::grad_accumulator(slot.parameter);
    slot.hook = slot.accumulator->add_post_hook(std::make_unique<Hook>([weak = std::weak_ptr(state_), i] {
      if (const auto state = weak.lock()) state->arrived(i);
    }));
  }
}

GradientSync::GradientSync(std::vector<NamedTensor> parameters, Communicator communicator, const BucketOptions& options)
    : GradientSync(std::move(parameters), std::move(communicator), options, nullptr) {}

GradientSync::GradientSync(torch::nn::Module& module, Communicator communicator, const BucketOptions& options)
    : GradientSync(named_parameters(module), std::move(communicator), options) {}

GradientSync::~GradientSync() {
  for (Slot& slot : state_->slots) slot.accumulator->del_post_hook(slot.hook);
}

void GradientSync::zero_grad() {
  for (Slot& slot : state_->slots) slot.parameter.mutable_grad() = at::Tensor();
}

void GradientSync::weight(double share) {
  if (!(share >= 0)) throw Error(Code::invalid, "a rank's share of the batch cannot be negative");
  state_->factor = share * state_->communicator.size();
}

void GradientSync::finish() {
  State& state = *state_;
  state.fill_absent();
  state.site->note_computed();
  while (state.next_bucket < state.buckets.size()) state.send(state.buckets[state.next_bucket++]);
  state.site->wait_for_computed();  // so that what follows is communication alone
  const auto begin = std::chrono::steady_clock::now();
  for (Bucket& bucket : state.buckets) bucket.work.wait();
  state.stats.wait_seconds += seconds_since(begin);
  if (!state.buckets.empty()) state.stats.exchange_seconds += seconds_since(state.left);
  state.publish();
  state.begin();
}

GradientSync::NoSync::NoSync(GradientSync& sync) noexcept : sync_(sync) { ++sync_.state_->muted; }
GradientSync::NoSync::~NoSync() { --sync_.state_->muted; }

std::size_t GradientSync::buckets() const noexcept { return state_->buckets.size(); }
std::size_t GradientSync::bucket_bytes(std::size_t bucket) const { return state_->buckets.at(bucket).all.bytes(); }
const SyncStats& GradientSync::stats() const noexcept { return state_->stats; }

}  // namespace tutti::nn
