// One step: forward and backward of this rank's samples, in micro-batches if configured, with gradients exchanged
// meanwhile; then the update.
#include <torch/utils.h>

#include <cmath>

#include <algorithm>

#include "engine/data/random.hpp"
#include "engine/data/sampling.hpp"
#include "engine/data/tensors.hpp"
#include "engine/loop/autocast.hpp"
#include "engine/loop/run.hpp"
#include "engine/strategies/grain_tree.hpp"

namespace tutti::engine {

/// Input and target on the network's device. Their memory belongs to the batch or to the feed.
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

/// Under autocast to bfloat16 if configured; the output is converted back to the network's dtype.
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

/// Calls the strategy and records the time that it was blocked. All ranks finish exchanges in the same calls.
void Trainer::Run::exchange(const std::function<void()>& call) {
  const ExchangeStats before = strategy->stats();
  call();
  const ExchangeStats& after = strategy->stats();
  if (after.finished > before.finished)
    times.exchanged(after.wait_seconds - before.wait_seconds, after.exchange_seconds - before.exchange_seconds);
}

/// Seeds LibTorch's generator (dropout) from the step and the rank or grain, so that a resumed run draws the same
/// numbers.
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
  const std::size_t first_grain = share(grains, world.rank(), world.size()).begin, first_sum = sums.size();
  sums.resize(first_sum + std::max<std::size_t>(grains, 1));
  if (counts_of.empty()) call(hooks.on_forward, moment);
  // joins the collectives of the other ranks' BatchNorms
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
    if (grains > 0) sums[first_sum + first_grain + i] = mean * static_cast<double>(count);
    begin += count;
  }
  if (grains == 0) sums[first_sum] = moment.loss * static_cast<double>(batch.count);
  last_loss = moment.loss;
  exchange([&] { strategy->end_backward(); });
}

/// At the learning rate of step `place` of a trainer's own.
void Trainer::Run::train_step(std::size_t epoch, Batch& batch, std::size_t place) {
  const double rate =
      strategy->traits().rate_factor *
      set_rate.value_or(schedule.rate({.step = place, .steps_per_epoch = loader.steps(), .total_steps = own_steps}));
  optimizer->set_learning_rate(rate);
  seed_draws(static_cast<std::size_t>(world.rank()));
  const auto [input, target] = tensors_of(batch);
  Moment now = moment(epoch);
  now.learning_rate = rate;
  now.input = &input;
  now.target = &target;
  now.batch = &batch;
  call(hooks.on_sample, now);
  times.clock().enter(Phase::compute);
  pieces(batch, input, target, now);
  if (config.optimizer.clip > 0) {
    std::optional<double> norm;
    if (network.parts) norm = network.parts->gradient_norm(tensors.parameters);
    now.gradient_norm = clip_gradient_norm(tensors.parameters, config.optimizer.clip, norm);
  }
  call(hooks.on_backward, now);
  optimizer->step();
  if (network.after_update) network.after_update();
  exchange([&] { strategy->end_step(); });
  call(hooks.on_update, now);
  if (feed) tensor_device.compute().record(feed->used(batch));
  counts.push_back(static_cast<double>(batch.global_count));
  ++state.step;
}

/// The extra steps of an epoch (Task::further).
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

/// Sums the losses of the steps since the last call over the ranks. Throws on all ranks if one is not finite.
void Trainer::Run::flush_losses() {
  if (counts.empty()) return;
  world.allreduce(sums, sum).wait();  // a grain's loss is nonzero on one rank only
  const std::size_t first = state.step - counts.size();
  for (std::size_t i = 0; i < counts.size(); ++i) {
    const double total = grains == 0 ? sums[i]
                                     : tree_sum(std::span(sums).subspan(i * grains, grains),
                                                std::min(grains, static_cast<std::size_t>(counts[i])));
    state.losses.push_back(total / counts[i]);
    state.epoch_loss += total;
    state.epoch_samples += counts[i];
    if (!std::isfinite(total))
      throw Error(Code::invalid,
                  "the loss of step " + std::to_string(first + i) +
                      " is not a number: try a smaller optimizer.lr, a longer schedule.warmup or "
                      "optimizer.clip=1" +
                      (keeps_checkpoints() ? "; the last checkpoint in " + config.run + " is from before" : ""),
                  0);  // the culprit; the same on all ranks
  }
  sums.clear();
  counts.clear();
}

}  // namespace tutti::engine
