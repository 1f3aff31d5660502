// A hook on each parameter's gradient accumulator copies the gradient into its bucket. A bucket is sent when its last
// gradient has arrived and all buckets before it have been sent.
//
// After a step all ranks must know which parameters had a gradient on some rank. Without compression this costs no
// extra collective: each bucket carries one element per parameter behind its gradients, 1 if this rank has a gradient.
// With compression one small allreduce exchanges the flags of all parameters.
#include "nn/gradient_sync.hpp"

#include <torch/csrc/autograd/function_hook.h>

#include <algorithm>
#include <chrono>
#include <functional>
#include <utility>

#include "nn/gradient_state.hpp"
#include "nn/sparse_rows.hpp"
#include "nn/tensor.hpp"

namespace tutti::nn {
namespace {

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

double seconds_since(std::chrono::steady_clock::time_point begin) {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
}

std::string in_quotes(const std::string& name) { return "'" + name + "'"; }

}  // namespace

void GradientSync::State::begin() {
  next_bucket = 0;
  missing = slots.size();
  factor = 1;
  arrivals.clear();
  for (Slot& slot : slots) {
    slot.ready = false;
    slot.sent = 0;
  }
  for (Bucket& bucket : buckets) bucket.missing = bucket.slots.size();
}

void GradientSync::State::arrived(std::size_t index) {
  Slot& slot = slots[index];
  if (slot.ready)
    throw Error(Code::invalid, "the gradient of " + in_quotes(slot.name) +
                                   " arrived twice before finish(): call finish() after every backward, or hold a "
                                   "no_sync() guard during all but the last backward of a step");
  if (muted > 0) return;
  if (!agreed) arrivals.push_back(static_cast<std::int64_t>(index));
  pack(slot);
  tensor_device->note_computed();  // now, because the next gradient may be computed on another stream
  send_ready();
}

void GradientSync::State::pack(Slot& slot) {
  const at::NoGradGuard no_grad;
  at::Tensor& gradient = slot.parameter.mutable_grad();
  if (gradient.layout() != at::kStrided)
    throw Error(Code::unsupported, "the gradient of " + in_quotes(slot.name) +
                                       " is sparse: name it in BucketOptions::sparse, or make the embedding dense");
  if (gradient.scalar_type() != slot.view.scalar_type())
    throw Error(Code::unsupported, "the gradient of " + in_quotes(slot.name) + " is not of the parameter's own dtype");
  if (gradient.data_ptr() != slot.view.data_ptr()) {
    if (factor == 1)
      slot.view.copy_(gradient);
    else
      at::mul_out(slot.view, gradient, at::scalar_tensor(factor, slot.view.options()));
    gradient = slot.view;
  } else if (factor != 1) {
    slot.view.mul_(factor);
  }
  slot.ready = true;
  --buckets[slot.bucket].missing;
  --missing;
}

void GradientSync::State::send_ready() {
  while (next_bucket < buckets.size() && buckets[next_bucket].missing == 0) {
    if (missing > 0) ++stats.overlapped;
    send(buckets[next_bucket++]);
  }
}

void GradientSync::State::send(Bucket& bucket) {
  const at::NoGradGuard no_grad;
  if (&bucket == buckets.data()) left = std::chrono::steady_clock::now();
  if (bucket.presence.defined()) note_presence(bucket);
  for (const std::size_t each : bucket.slots) {
    ++slots[each].sent;
    ++slots[each].exchanges;
  }
  if (bucket.codec)
    bucket.codec->start(*bucket.exchange);
  else
    bucket.exchange->allreduce(bucket.all, avg);
}

/// Writes the bucket's flags: 1 for each parameter that has a gradient on this rank.
void GradientSync::State::note_presence(Bucket& bucket) {
  bucket.presence.fill_(1);
  for (const std::size_t each : bucket.slots)
    if (bucket.missing > 0 && !slots[each].ready)
      bucket.presence.select(0, static_cast<std::int64_t>(slots[each].place)).zero_();
  tensor_device->note_computed();
}

/// Packs gradients that were accumulated under no_sync() only, and zeroes the views of parameters without a gradient.
void GradientSync::State::fill_absent() {
  for (Slot& slot : slots) {
    if (slot.ready) continue;
    if (slot.parameter.grad().defined())
      pack(slot);
    else
      slot.view.zero_();
  }
}

/// Blocks until all buckets hold the means. Codecs advance in the same order on all ranks.
void GradientSync::State::receive() {
  const at::NoGradGuard no_grad;
  present.clear();
  if (options.compression && !slots.empty()) {
    for (const Slot& slot : slots) present.push_back(slot.ready ? 1 : 0);
    communicator.allreduce(present, max).wait();
  }
  std::vector<Bucket*> open;
  for (Bucket& bucket : buckets) open.push_back(&bucket);
  while (!open.empty())
    std::erase_if(open, [](Bucket* bucket) {
      bucket->exchange->wait();
      return !bucket->codec || bucket->codec->advance(*bucket->exchange);
    });
}

void GradientSync::State::audit() const {
  for (const Slot& slot : slots) {
    if (slot.sent != 1)
      throw Error(Code::internal, "the gradient of " + in_quotes(slot.name) + " was exchanged " +
                                      std::to_string(slot.sent) + " times in one step");
    const at::Tensor& gradient = slot.parameter.grad();
    if (slot.ready && (!gradient.defined() || gradient.data_ptr() != slot.view.data_ptr()))
      throw Error(Code::invalid, "the gradient of " + in_quotes(slot.name) +
                                     " was replaced between backward and finish(), so that the mean has no place: "
                                     "change gradients after finish()");
  }
}

/// Parameters without a gradient here get the mean if another rank had one.
void GradientSync::State::publish() {
  for (Bucket& bucket : buckets) {
    if (bucket.missing == 0) continue;
    at::Tensor presence;
    if (bucket.presence.defined()) presence = bucket.presence.to(at::kCPU, at::kDouble);
    for (std::size_t i = 0; i < bucket.slots.size(); ++i) {
      Slot& slot = slots[bucket.slots[i]];
      const bool there = presence.defined() ? presence.data_ptr<double>()[i] > 0 : present[bucket.slots[i]] > 0;
      if (!slot.ready && there) slot.parameter.mutable_grad() = slot.view;
    }
  }
}

GradientSync::GradientSync(std::vector<NamedTensor> parameters, Communicator communicator, const BucketOptions& options,
                           std::shared_ptr<TensorDevice> tensor_device) {
  keep_distinct(parameters);  // a tied weight has one gradient, so it gets one slot
  std::erase_if(parameters, [](const NamedTensor& one) { return !one.second.requires_grad(); });  // frozen
  const at::Device device = parameters.empty() ? at::Device(at::kCPU) : parameters.front().second.device();
  if (!tensor_device) tensor_device = tensor_device_of(device, communicator);
  state_ = std::make_shared<State>(std::move(communicator), std::move(tensor_device), options);
  for (auto& [name, parameter] : parameters) {
    if (parameter.device() != device || !parameter.is_leaf() || !at::isFloatingType(parameter.scalar_type()))
      throw Error(Code::unsupported, "GradientSync takes floating-point leaf tensors, all on one device, which " +
                                         in_quotes(name) + " is not; move the network to one");
    if (std::ranges::find(options.sparse, name) != options.sparse.end())
      state_->sparse.emplace_back(std::move(name), std::move(parameter));
    else
      state_->slots.push_back({.name = std::move(name), .parameter = std::move(parameter)});
  }
  if (state_->sparse.size() != options.sparse.size())
    throw Error(Code::invalid, "BucketOptions::sparse names a parameter that the network has not, or twice: of " +
                                   std::to_string(options.sparse.size()) + " names " +
                                   std::to_string(state_->sparse.size()) + " were found");
  state_->build(last_to_first(state_->slots.size()));
  for (std::size_t i = 0; i < state_->slots.size(); ++i) {
    State::Slot& slot = state_->slots[i];
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
  for (State::Slot& slot : state_->slots) slot.accumulator->del_post_hook(slot.hook);
}

void GradientSync::zero_grad() {
  for (State::Slot& slot : state_->slots) slot.parameter.mutable_grad() = at::Tensor();
  for (auto& [name, parameter] : state_->sparse) parameter.mutable_grad() = at::Tensor();
}

void GradientSync::weight(double share) {
  if (!(share >= 0)) throw Error(Code::invalid, "a rank's share of the batch cannot be negative");
  state_->factor = share * state_->communicator.size();
}

void GradientSync::finish() {
  State& state = *state_;
  state.fill_absent();
  state.tensor_device->note_computed();
  while (state.next_bucket < state.buckets.size()) state.send(state.buckets[state.next_bucket++]);
  state.tensor_device->wait_for_computed();  // so that the time measured below is communication only
  const auto begin = std::chrono::steady_clock::now();
  state.receive();
  average_rows(state.sparse, state.factor, state.communicator, state.stats);
  state.stats.wait_seconds += seconds_since(begin);
  if (!state.buckets.empty()) state.stats.exchange_seconds += seconds_since(state.left);
  state.audit();
  state.publish();
  state.agree();
  state.begin();
}

GradientSync::NoSync::NoSync(GradientSync& sync) noexcept : sync_(sync) { ++sync_.state_->muted; }
GradientSync::NoSync::~NoSync() { --sync_.state_->muted; }

std::size_t GradientSync::exchanges(const std::string& name) const {
  const auto found = std::ranges::find(state_->slots, name, &State::Slot::name);
  if (found == state_->slots.end()) throw Error(Code::invalid, "GradientSync has no parameter " + in_quotes(name));
  return found->exchanges;
}

std::size_t GradientSync::buckets() const noexcept { return state_->buckets.size(); }
std::size_t GradientSync::bucket_bytes(std::size_t bucket) const { return state_->buckets.at(bucket).all.bytes(); }
const SyncStats& GradientSync::stats() const noexcept { return state_->stats; }

}  // namespace tutti::nn
