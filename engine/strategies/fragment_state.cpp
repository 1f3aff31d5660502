#include "engine/strategies/fragment_state.hpp"

#include <ATen/Functions.h>
#include <c10/core/GradMode.h>

#include "engine/strategies/counts.hpp"

namespace tutti::engine::exchange {

FragmentState::FragmentState(std::vector<nn::NamedTensor> tensors, const Axes& axes, const Replica& replica,
                             const nn::Compression* codec, nn::SyncStats& bytes)
    : axes_(axes),
      world_(replica.world),
      tensor_device_(replica.tensor_device),
      flat_(std::move(tensors), world_, *tensor_device_),
      stats_(bytes),
      exchange_(std::make_unique<nn::Exchange>(world_, tensor_device_, stats_)),
      rule_({.rule = axes.outer, .lr = axes.outer_lr, .momentum = axes.outer_momentum, .every = axes.outer_every}) {
  if (codec) codec_ = codec->codec({.gradients = flat_.all(), .parts = flat_.parts()}, *exchange_);
}

void FragmentState::remember() {
  if (!outer_.defined()) outer_ = at::empty_like(flat_.all());
  flat_.read(outer_);
}

void FragmentState::measure() {
  const at::NoGradGuard no_grad;
  flat_.take();
  at::Tensor all = flat_.all();
  if (deltas()) at::sub_out(all, outer_, all);
}

std::vector<double> FragmentState::lengths() const {
  std::vector<double> all;
  for (const auto& [name, part] : flat_.parts()) all.push_back(part.norm().item<double>());
  return all;
}

void FragmentState::scale(const std::vector<double>& factors) {
  for (std::size_t i = 0; i < factors.size(); ++i) flat_.parts()[i].second.mul_(factors[i]);
}

void FragmentState::scale(double factor) {
  if (factor != 1) flat_.all().mul_(factor);
}

void FragmentState::send() {
  const at::NoGradGuard no_grad;
  tensor_device_->note_computed();
  if (codec_)
    codec_->start(*exchange_);
  else
    exchange_->allreduce(flat_.buffer(), axes_.merge == Axes::Merge::sum ? sum : avg);
  sent_ = true;
  arrived_ = false;
}

void FragmentState::finish() {
  const at::NoGradGuard no_grad;
  if (!sent_ || arrived_) return;
  exchange_->wait();
  while (codec_ && !codec_->advance(*exchange_)) exchange_->wait();
  if (codec_ && axes_.merge == Axes::Merge::sum) flat_.all().mul_(world_.size());  // codecs compute the mean
  arrived_ = true;
}

void FragmentState::set_lengths(const std::vector<double>& lengths) {
  const at::NoGradGuard no_grad;
  for (std::size_t i = 0; i < lengths.size(); ++i) {
    const at::Tensor& part = flat_.parts()[i].second;
    const double now = lengths[i] < 0 ? 0 : part.norm().item<double>();
    if (now > 0) part.mul_(lengths[i] / now);
  }
}

void FragmentState::step(const at::Tensor& delta) {
  rule_.set(axes_.outer_lr, axes_.outer_momentum);
  rule_.step(outer_, delta);
}

void FragmentState::apply() {
  const at::NoGradGuard no_grad;
  sent_ = arrived_ = false;
  if (deltas()) step(flat_.all());
  const at::Tensor& next = deltas() ? outer_ : flat_.all();
  if (axes_.alpha == 0) {
    flat_.write(next);
    return;
  }
  const at::Tensor own = at::empty_like(next);
  flat_.read(own);
  flat_.write(own.mul_(axes_.alpha).add_(next, 1 - axes_.alpha));
}

void FragmentState::eager() {
  const at::NoGradGuard no_grad;
  at::Tensor mean;
  if (sent_) {
    finish();
    mean = flat_.all().clone();
  } else {
    mean = at::zeros_like(flat_.all());
    previous_ = at::zeros_like(flat_.all());
  }
  measure();
  const at::Tensor fresh = flat_.all().clone();
  send();
  step(mean.add_(fresh.sub(previous_).div_(world_.size())));
  previous_ = fresh;
  flat_.write(outer_);
}

/// Sets the parameters to the ranks' mean of `values`. Uses flat_, but preserves a result that is not applied yet.
void FragmentState::mean_of_ranks(const at::Tensor& values) {
  const at::Tensor kept = sent_ ? flat_.all().clone() : at::Tensor();
  flat_.all().copy_(values);
  tensor_device_->note_computed();
  nn::Exchange judging(world_, tensor_device_, judging_);
  judging.allreduce(flat_.buffer(), avg);
  judging.wait();
  flat_.write(flat_.all());
  if (kept.defined()) flat_.all().copy_(kept);
}

void FragmentState::judge() {
  const at::NoGradGuard no_grad;
  mine_ = at::empty_like(flat_.all());
  flat_.read(mine_);
  if (axes_.judged == Axes::Judged::outer)
    flat_.write(outer_);
  else
    mean_of_ranks(deltas() ? outer_ : mine_);
}

void FragmentState::restore() {
  flat_.write(mine_);
  mine_ = at::Tensor();
}

std::vector<nn::NamedTensor> FragmentState::state() const {
  std::vector<nn::NamedTensor> all;
  const std::string& name = flat_.parts().front().first;  // unique, because no other part has this parameter
  const auto keep = [&](const std::string& what, const at::Tensor& tensor) {
    if (tensor.defined()) all.emplace_back(name + "." + what, tensor);
  };
  keep("outer", outer_);
  keep("mine", mine_);
  keep("previous", previous_);
  if (sent_) keep("merged", flat_.all());
  if (deltas())
    for (const auto& [what, tensor] : rule_.state()) keep("outer." + what, tensor);
  if (codec_)
    for (nn::NamedTensor& each : codec_->state()) all.push_back(std::move(each));
  return all;
}

void FragmentState::load_state(const std::vector<nn::NamedTensor>& state) {
  const at::NoGradGuard no_grad;
  const std::string& name = flat_.parts().front().first;
  std::vector<nn::NamedTensor> of_rule;
  for (const auto& [key, tensor] : state) {
    if (key == name + ".outer") outer_ = tensor.clone();
    if (key == name + ".mine") mine_ = tensor.clone();
    if (key == name + ".previous") previous_ = tensor.clone();
    if (key == name + ".merged") {
      flat_.all().copy_(tensor);
      sent_ = arrived_ = true;
    }
    if (key.starts_with(name + ".outer.")) of_rule.emplace_back(key.substr(name.size() + 7), tensor);
  }
  rule_.load_state(of_rule);
  if (codec_) copy_from(state, codec_->state());
}

std::int64_t FragmentState::kept() const {
  std::int64_t numbers = flat_.all().numel();
  for (const at::Tensor& each : {outer_, mine_, previous_})
    if (each.defined()) numbers += each.numel();
  if (deltas())
    for (const auto& [what, tensor] : rule_.state())
      if (what != "steps") numbers += tensor.numel();
  return numbers;
}

}  // namespace tutti::engine::exchange
