// One step: forward and backward of a rank's samples, in pieces if need be, with the gradients leaving; then the
// update.
#include <torch/utils.h>

#include <cmath>

#include "engine/autocast.hpp"
#include "engine/data/random.hpp"
#include "engine/data/tensors.hpp"
#include "engine/trainer_run.hpp"

namespace tutti::engine {

/// Input and target, where the network is. The memory is the batch's or the feed's.
std::pair<at::Tensor, at::Tensor> Trainer::Run::tensors_of(const Batch& batch) const {
  if (feed) site.compute().follow(feed->arrived(batch));
  at::Tensor input, target;
  std::size_t field = 0;
  for (const auto& [name, array] : batch) {
    const auto there = [&] {
      const std::shared_ptr<std::byte> memory(std::shared_ptr<void>(),
                                              static_cast<std::byte*>(feed->field(batch, field)));
      return site.tensor(memory, 0, array.shape(), scalar_type(array.dtype()));
    };
    if (name == data.inputs[0]) input = feed ? there() : to_tensor(array);
    if (name == data.target) target = feed ? there() : to_tensor(array);
    ++field;
  }
  if (input.is_floating_point()) input = input.to(type);
  return {input, target};
}

/// In bfloat16, where the configuration says so; the outcome is of the network's own type.
at::Tensor Trainer::Run::forward(const at::Tensor& input) const {
  const bool cast = config.precision == "bf16";
  const Autocast autocast(cast);
  const at::Tensor output = network.forward(input);
  return cast && output.is_floating_point() ? output.to(type) : output;
}

/// Forward and backward of some of the samples; `share` is their part of this rank's.
void Trainer::Run::piece(const at::Tensor& input, const at::Tensor& target, double share, Moment& moment) {
  const at::Tensor output = forward(input);
  const at::Tensor value = loss(output, target);
  moment.loss += share * value.item<double>();
  moment.output = share == 1 ? &output : nullptr;
  call(hooks.on_forward, moment);
  (share == 1 ? value : value * share).backward();
  moment.output = nullptr;
}

void Trainer::Run::train_step(std::size_t epoch, Batch& batch) {
  const double rate = set_rate.value_or(
      schedule.rate({.step = state.step, .steps_per_epoch = loader.steps(), .total_steps = total_steps}));
  optimizer->set_learning_rate(rate);
  // Dropout and the like: other numbers in each step and on each rank, and the same ones when a run is resumed.
  torch::manual_seed(
      Random::keyed(static_cast<std::uint64_t>(config.seed), 0x64726177, state.step, world.rank()).next());
  const auto [input, target] = tensors_of(batch);
  Moment now = moment(epoch);
  now.learning_rate = rate;
  now.input = &input;
  now.target = &target;
  now.batch = &batch;
  call(hooks.on_sample, now);
  times.clock().enter(Phase::compute);
  sync.zero_grad();
  sync.weight(static_cast<double>(batch.count) / static_cast<double>(batch.global_count));
  std::vector<std::size_t> pieces = batch.pieces;
  std::erase(pieces, 0U);  // a small last step may have fewer samples than there are pieces
  if (pieces.empty()) call(hooks.on_forward, now);
  std::int64_t begin = 0;
  for (std::size_t i = 0; i < pieces.size(); ++i) {
    const auto count = static_cast<std::int64_t>(pieces[i]);
    const double share = static_cast<double>(count) / static_cast<double>(batch.count);
    std::optional<nn::GradientSync::NoSync> kept;  // gradients leave with the last piece
    if (i + 1 < pieces.size()) kept.emplace(sync);
    piece(input.narrow(0, begin, count), target.narrow(0, begin, count), share, now);
    begin += count;
  }
  const nn::SyncStats before = sync.stats();
  sync.finish();
  times.exchanged(sync.stats().wait_seconds - before.wait_seconds,
                  sync.stats().exchange_seconds - before.exchange_seconds);
  if (config.optimizer.clip > 0) now.gradient_norm = clip_gradient_norm(tensors.parameters, config.optimizer.clip);
  call(hooks.on_backward, now);
  optimizer->step();
  call(hooks.on_update, now);
  if (feed) site.compute().record(feed->used(batch));
  sums.push_back(now.loss * static_cast<double>(batch.count));
  counts.push_back(static_cast<double>(batch.global_count));
  ++state.step;
}

/// Sums the losses of the steps since the last time up over the ranks. All ranks end training where one is not a
/// number.
void Trainer::Run::flush_losses() {
  if (sums.empty()) return;
  world.allreduce(sums, sum).wait();
  const std::size_t first = state.step - sums.size();
  for (std::size_t i = 0; i < sums.size(); ++i) {
    state.losses.push_back(sums[i] / counts[i]);
    state.epoch_loss += sums[i];
    state.epoch_samples += counts[i];
    if (!std::isfinite(sums[i]))
      throw Error(Code::invalid,
                  "the loss of step " + std::to_string(first + i) +
                      " is not a number: try a smaller optimizer.lr, a longer schedule.warmup or "
                      "optimizer.clip=1" +
                      (keeps_checkpoints() ? "; the last checkpoint in " + config.run + " is from before" : ""),
                  0);  // the same on all ranks
  }
  sums.clear();
  counts.clear();
}

}  // namespace tutti::engine
