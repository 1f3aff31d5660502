// One step: forward and backward of this rank's samples, in micro-batches if configured, while gradients are exchanged;
// then the update.
#include <torch/utils.h>

#include <ATen/Functions.h>
#include <cmath>
#include <limits>

#include <algorithm>

#include "engine/data/random.hpp"
#include "engine/data/sampling.hpp"
#include "engine/data/tensors.hpp"
#include "engine/loop/autocast.hpp"
#include "engine/loop/run.hpp"
#include "engine/optimizers/finite.hpp"

namespace tutti::engine {
namespace {

constexpr std::size_t most_left_out = 100;  // steps in a row; then training is given up, even with on_nan=skip

std::string not_finite(std::size_t step) {
  return "the loss or the gradients of step " + std::to_string(step) +
         " are not finite numbers: try a smaller optimizer.lr, a longer schedule.warmup or optimizer.clip=1, or look "
         "for NaN in the data; on_nan=skip goes on without such steps";
}

}  // namespace

/// Returns input and target on the network's device. Their memory belongs to the batch or to the feed.
std::pair<at::Tensor, at::Tensor> Trainer::Run::tensors_of(const Batch& batch) const {
  if (feed) tensor_device.compute().follow(feed->arrived(batch));
  at::Tensor input, target;
  std::size_t field = 0;
  for (const auto& [name, array] : batch) {
    const auto there = [&] {
      const std::shared_ptr<std::byte> memory(std::shared_ptr<void>(),
                                              static_cast<std::byte*>(feed->field(batch, field)));
      return tensor_device.tensor(memory, 0, array.shape(), scalar_type(array.dtype()));
    };
    if (name == data.inputs[0]) input = feed ? there() : to_tensor(array);
    if (name == data.target) target = feed ? there() : to_tensor(array);
    ++field;
  }
  if (input.is_floating_point()) input = input.to(type);
  return {input, target};
}

/// Runs forward, under autocast to bfloat16 if configured, and converts the output to the network's dtype.
at::Tensor Trainer::Run::forward(const at::Tensor& input) const {
  const bool cast = config.precision == "bf16";
  const Autocast autocast(cast);
  const at::Tensor output = network.forward(input);
  return cast && output.is_floating_point() ? output.to(type) : output;
}

/// Forward and backward of one micro-batch. `share` is its fraction of this rank's samples, `weight` the factor of its
/// gradients. Returns its mean loss.
double Trainer::Run::piece(const at::Tensor& input, const at::Tensor& target, double share, double weight,
                           Moment& moment) {
  const at::Tensor output = forward(input);
  const at::Tensor value = loss(output, target);
  const auto mean = value.item<double>();
  moment.loss += share * mean;
  moment.output = share == 1 ? &output : nullptr;
  call(hooks.on_forward, moment);
  (weight == 1 ? value : value * weight).backward();
  moment.output = nullptr;
  return mean;
}

/// Calls the strategy and records how long the call blocked. Exchanges finish in the same calls on all ranks.
void Trainer::Run::exchange(const std::function<void()>& call) {
  const ExchangeStats before = strategy->stats();
  call();
  const ExchangeStats& after = strategy->stats();
  if (after.finished > before.finished)
    times.exchanged(after.wait_seconds - before.wait_seconds, after.exchange_seconds - before.exchange_seconds);
}

/// Seeds LibTorch's generator (dropout) from the step and from `who`, the rank or, with grains, the micro-batch. So a
/// resumed run draws the same numbers.
void Trainer::Run::seed_draws(std::size_t who) const {
  torch::manual_seed(
      Random::keyed(static_cast<std::uint64_t>(config.seed), grains > 0 ? 0x677261696e : 0x64726177, state.step, who)
          .next());
}

/// All forward and backward passes of a step.
void Trainer::Run::pieces(const Batch& batch, const at::Tensor& input, const at::Tensor& target, Moment& moment) {
  std::vector<std::size_t> counts_of = batch.pieces;
  std::erase(counts_of, 0U);  // a small last step may have fewer samples than micro-batches
  exchange([&] {
    strategy->begin_step({.step = state.step,
                          .learning_rate = moment.learning_rate,
                          .count = batch.count,
                          .global_count = batch.global_count,
                          .pieces = counts_of.size()});
  });
  const std::size_t first_grain = share(grains, world.rank(), world.size()).begin;
  const std::span<double> sums = losses.begin();
  if (counts_of.empty()) call(hooks.on_forward, moment);
  // A rank without samples takes part in the collectives of the other ranks' BatchNorms.
  if (counts_of.empty() && config.sync.batch_norm) forward(input).sum().backward();
  std::int64_t begin = 0;
  for (std::size_t i = 0; i < counts_of.size(); ++i) {
    const auto count = static_cast<std::int64_t>(counts_of[i]);
    at::Tensor some = input.narrow(0, begin, count), wanted = target.narrow(0, begin, count);
    if (grains > 0) {
      seed_draws(first_grain + i);
      some = some.clone();  // so that kernels see the same alignment on any number of ranks
      wanted = wanted.clone();
    }
    const double part = static_cast<double>(count) / static_cast<double>(batch.count);
    const double weight = strategy->begin_piece(i, counts_of[i]);
    const double mean = piece(some, wanted, part, weight, moment);
    strategy->end_piece(i);
    if (grains > 0) sums[first_grain + i] = mean * static_cast<double>(count);
    begin += count;
  }
  if (grains == 0) sums[0] = moment.loss * static_cast<double>(batch.count);
  loss_of_step = sums;
  last_loss = moment.loss;
  exchange([&] { strategy->end_backward(); });
}

/// Copies the buffers, which a forward pass changes, so that leave_out() can restore them.
void Trainer::Run::keep_buffers() {
  const at::NoGradGuard no_grad;
  for (std::size_t i = 0; i < tensors.buffers.size(); ++i) {
    if (buffers_before.size() == i) buffers_before.push_back(at::empty_like(tensors.buffers[i].second));
    buffers_before[i].copy_(tensors.buffers[i].second);
  }
  buffers_are_between = true;
}

void Trainer::Run::restore_buffers() {
  const at::NoGradGuard no_grad;
  for (std::size_t i = 0; i < buffers_before.size(); ++i) tensors.buffers[i].second.copy_(buffers_before[i]);
}

/// Returns true if the loss and the gradients of the step are finite numbers. The result is the same on ranks with
/// equal gradients. If the network is split over a mesh, the call is collective, and all ranks get the same result.
bool Trainer::Run::is_finite_step(const Moment& now) {
  bool finite = now.gradient_norm > 0 || config.optimizer.clip > 0 ? std::isfinite(now.gradient_norm)
                                                                   : gradients_are_finite(tensors.parameters);
  if (!strategy->traits().equal_gradients) finite = finite && std::isfinite(now.loss);
  if (network.parts) finite = everyone.allreduce(finite ? 1 : 0, min).wait() == 1;
  return finite;
}

void Trainer::Run::update(Moment& now) {
  const bool is_finite = is_finite_step(now);
  if (!is_finite) loss_of_step[0] = std::numeric_limits<double>::quiet_NaN();
  losses.end(now.step, now.batch->global_count);
  if (is_elastic() && !strategy->traits().changes_alone)
    flush_losses();  // the last exchange of the step: afterwards the step is done, whoever dies
  if (!is_finite) return leave_out(now);
  left_out = 0;
  optimizer->step();
  if (network.after_update) network.after_update();
  if (config.optimizer.ema > 0) move_averages();
}

/// Updates the averages like AveragedModel of torch.optim.swa_utils with get_ema_multi_avg_fn(). The first step sets
/// them.
void Trainer::Run::move_averages() {
  const at::NoGradGuard no_grad;
  const bool first = averages.empty();
  for (std::size_t i = 0; i < tensors.parameters.size(); ++i) {
    const at::Tensor& parameter = tensors.parameters[i].second;
    if (first)
      averages.push_back(parameter.detach().clone());
    else
      averages[i].lerp_(parameter, 1 - config.optimizer.ema);
  }
}

/// Swaps the values of parameters and averages, before a validation of the averages and again after it.
void Trainer::Run::swap_averages() {
  const at::NoGradGuard no_grad;
  for (std::size_t i = 0; i < averages.size(); ++i) {
    const at::Tensor kept = averages[i].clone();
    averages[i].copy_(tensors.parameters[i].second);
    tensors.parameters[i].second.copy_(kept);
  }
}

/// Instead of an update: restores the buffers and clears the gradients. Throws DivergedError if training is to be given
/// up and the other ranks do not know it; the error on this rank alone then ends the job.
void Trainer::Run::leave_out(const Moment& now) {
  const at::NoGradGuard no_grad;
  ++left_out;
  for (const auto& [name, parameter] : tensors.parameters)
    if (parameter.grad().defined()) parameter.mutable_grad().zero_();
  restore_buffers();
  const bool all_know = strategy->traits().equal_gradients || world.size() == 1;
  if (!all_know && (config.on_nan == "stop" || left_out == most_left_out)) throw DivergedError(not_finite(now.step));
}

/// The learning rate of step `place` of the schedule, unless a hook has set one.
double Trainer::Run::rate_of(std::size_t place) const {
  return strategy->traits().rate_factor *
         set_rate.value_or(schedule.rate({.step = place, .steps_per_epoch = loader.steps(), .total_steps = own_steps}));
}

/// Does one step. The learning rate is that of step `place` of the schedule, unless a hook has set one.
void Trainer::Run::train_step(std::size_t epoch, Batch& batch, std::size_t place) {
  const double rate = rate_of(place);
  optimizer->set_learning_rate(rate);
  seed_draws(static_cast<std::size_t>(world.rank()));
  const auto [input, target] = tensors_of(batch);
  Moment now = moment(epoch);
  now.learning_rate = rate;
  now.input = &input;
  now.target = &target;
  now.batch = &batch;
  if (sample_log) sample_log->step(mark.number, epoch, now.step, batch.ids);
  call(hooks.on_sample, now);
  times.clock().enter(Phase::compute);
  keep_buffers();
  pieces(batch, input, target, now);
  if (config.optimizer.clip > 0) {
    std::optional<double> norm;
    if (network.parts) norm = network.parts->gradient_norm(tensors.parameters);
    now.gradient_norm = clip_gradient_norm(tensors.parameters, config.optimizer.clip, norm);
  }
  call(hooks.on_backward, now);
  update(now);
  exchange([&] { strategy->end_step(); });
  call(hooks.on_update, now);
  if (feed) tensor_device.compute().record(feed->used(batch));
  ++state.step;
  if (left_out == 0 || (config.on_nan == "skip" && left_out < most_left_out)) return;
  flush_losses();
  if (failure.empty()) give_up(not_finite(state.step - 1));
}

/// Does the extra steps of an epoch (Task::further).
void Trainer::Run::train_further(std::size_t epoch, std::size_t& samples) {
  const bool is_last = !has_more();
  const std::vector<Transform> transforms = transforms_for(config, data);
  while (stop_reason.empty()) {
    const Further some = further(epoch, is_last);
    if (some.ids.empty()) return;
    const Range mine = share(some.ids.size(), world.rank(), world.size());
    Batch batch = collate(
        *some.data, std::span(some.ids).subspan(mine.begin, mine.count), transforms,
        {.seed = static_cast<std::uint64_t>(config.seed), .epoch = epoch, .step = state.step, .sample = some.ids[0]});
    batch.step = state.step;
    batch.global_count = batch.global_distinct = some.ids.size();
    const std::size_t most = config.batch.micro > 0 ? static_cast<std::size_t>(config.batch.micro) : batch.count;
    for (std::size_t left = batch.count; left > 0; left -= batch.pieces.back())
      batch.pieces.push_back(std::min(left, most));
    train_step(epoch, batch, some.step);
    ++state.further;
    samples += batch.global_count;
    state.samples += batch.global_count;
  }
}

/// Ends training; run() then throws DivergedError at its end. All ranks call it with the same reason.
void Trainer::Run::give_up(const std::string& why) {
  if (failure.empty()) failure = stop_reason = why;
}

/// Waits for the losses that the ranks are exchanging, and writes them. If a loss is not finite and on_nan=stop, gives
/// training up.
void Trainer::Run::take_losses() {
  const std::size_t before = state.losses.size();
  for (const StepLosses::Sum& step : losses.finish()) {
    state.losses.push_back(step.total / step.samples);
    if (std::isfinite(step.total)) {
      state.epoch_loss += step.total;
      state.epoch_samples += step.samples;
    } else if (config.on_nan == "stop") {
      give_up(not_finite(step.step));
    } else {
      report.line("step " + std::to_string(step.step) + " was left out: its loss or gradients were not finite numbers");
    }
  }
  write_losses(std::span(state.losses).subspan(before));
}

/// Exchanges the losses of all steps that are not known yet, and waits for them. Collective.
void Trainer::Run::flush_losses() {
  take_losses();
  losses.start();
  take_losses();
}

}  // namespace tutti::engine
