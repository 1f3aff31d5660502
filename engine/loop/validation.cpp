// Validation on held-out samples: when it runs, what it measures, and what follows from the result.
#include <ATen/core/Tensor.h>
#include <ATen/core/grad_mode.h>

#include <cmath>
#include <numeric>

#include "engine/data/tensors.hpp"
#include "engine/loop/all_or_none.hpp"
#include "engine/loop/run.hpp"

namespace tutti::engine {

/// True if the watched value, the first metric or else the loss, is better when it is larger.
bool Trainer::Run::larger_is_better() const { return !metrics.empty() && metrics[0].larger_is_better; }

double Trainer::Run::watched(const Validation& found) const {
  return found.metrics.empty() ? found.loss : found.metrics[0].second;
}

/// The value that a schedule expects to fall: 1 - accuracy, if the first metric is an accuracy.
double Trainer::Run::error_of(const Validation& found) const {
  return larger_is_better() ? 1 - watched(found) : watched(found);
}

/// stop.target is in percent if the metric is a fraction.
bool Trainer::Run::reaches_target(const Validation& found) const {
  if (config.stop.target == 0) return false;
  const bool share = !metrics.empty() && is_share(metrics[0].name);
  const double target = share ? config.stop.target / 100 : config.stop.target;
  return larger_is_better() ? watched(found) >= target : watched(found) <= target;
}

bool Trainer::Run::validates_within_epochs() const {
  return config.validate.every_steps > 0 || config.validate.every_samples > 0;
}

/// `samples`: number in the step that was just done.
bool Trainer::Run::validation_is_due(std::size_t samples) const {
  const auto steps = static_cast<std::size_t>(config.validate.every_steps);
  const auto every = static_cast<std::size_t>(config.validate.every_samples);
  if (steps > 0) return state.step % steps == 0;
  return every > 0 && state.samples / every > (state.samples - samples) / every;
}

/// After the last step of an epoch, or of the part of an epoch with which training ends.
void Trainer::Run::validate_at_end(std::size_t epoch, std::size_t steps, std::size_t samples) {
  if (!state.validations.empty() && state.validations.back().step == state.step) return;
  const bool ends = steps < loader.steps() || !stop_reason.empty() || !has_more();
  if (ends || !validates_within_epochs() || schedule.observes() || validation_is_due(samples)) validate(epoch, steps);
}

/// `steps` of the epoch are done. The time of a validation is not counted in the epoch.
void Trainer::Run::validate(std::size_t epoch, std::size_t steps) {
  strategy->settle();
  flush_losses();
  if (!strategy->traits().has_buffers) nn::synchronize_buffers(tensors.buffers, world, buffers, tensor_device);
  Validation found = evaluate();
  found.step = state.step;
  found.epoch = static_cast<double>(epoch) + static_cast<double>(steps) / static_cast<double>(loader.steps());
  state.validations.push_back(found);
  judge(epoch);
  if (validates_within_epochs()) report.validation(found);
  all_or_none(everyone, [&] {
    if (folder) folder->validation(found, validates_within_epochs());
  });
  Moment now = moment(epoch);
  now.validation = &state.validations.back();
  if (hooks.on_validation) hooks.on_validation(now);
  times.clock().skip();
}

/// Adds the loss and the metrics, summed over these held-out samples, to `totals`.
void Trainer::Run::evaluate(Range samples, std::span<double> totals) {
  const std::vector<Transform> plain = data.preparation();
  for (std::size_t done = 0; done < samples.count;) {
    std::vector<std::uint32_t> ids(std::min<std::size_t>(256, samples.count - done));
    std::iota(ids.begin(), ids.end(), static_cast<std::uint32_t>(samples.begin + done));
    const Batch batch = collate(*data.test, ids, plain);
    at::Tensor input = to_tensor(batch[data.inputs[0]]).to(tensor_device.tensors());
    if (input.is_floating_point()) input = input.to(type);
    const at::Tensor output = forward(input), target = to_tensor(batch[data.target]).to(tensor_device.tensors());
    const auto count = static_cast<double>(ids.size());
    totals[0] += loss(output, target).item<double>() * count;
    for (std::size_t i = 0; i < metrics.size(); ++i) totals[i + 1] += metrics[i].mean(output, target) * count;
    done += ids.size();
  }
}

/// With grains the samples are divided in the same way for any number of ranks, and the sums are added in a fixed
/// order.
Validation Trainer::Run::evaluate() {
  const at::NoGradGuard no_grad;
  set_training(network, false);
  const std::size_t samples = data.test->size(), width = 1 + metrics.size();
  const int parts = grains > 0 ? static_cast<int>(std::max(grains, (samples + 255) / 256)) : world.size();
  const Range mine = share(static_cast<std::size_t>(parts), world.rank(), world.size());
  std::vector<double> totals((grains > 0 ? static_cast<std::size_t>(parts) : 1) * width);
  for (std::size_t part = mine.begin; part < mine.begin + mine.count; ++part)
    evaluate(share(samples, static_cast<int>(part), parts),
             std::span(totals).subspan(grains > 0 ? part * width : 0, width));
  world.allreduce(totals, sum).wait();
  for (std::size_t i = width; i < totals.size(); ++i) totals[i % width] += totals[i];
  for (std::size_t i = 0; i < width; ++i) totals[i] /= static_cast<double>(samples);
  Validation found{.loss = totals[0]};
  for (std::size_t i = 0; i < metrics.size(); ++i) found.metrics.emplace_back(metrics[i].name, totals[i + 1]);
  return found;
}

bool Trainer::Run::best_is_now() const {
  return state.best_validation == state.validations.size() && !state.validations.empty() &&
         state.validations.back().step == state.step;
}

/// The number, from 1, of the validation with the best mean over the last stop.smooth validations.
std::size_t Trainer::Run::smoothed_best() const {
  const auto window = static_cast<std::size_t>(config.stop.smooth);
  double best = 0;
  std::size_t found = 0;
  for (std::size_t end = 1; end <= state.validations.size(); ++end) {
    const std::size_t begin = end - std::min(window, end);
    double mean = 0;
    for (std::size_t i = begin; i < end; ++i) mean += watched(state.validations[i]) / static_cast<double>(end - begin);
    if (found > 0 && !(larger_is_better() ? mean > best : mean < best)) continue;
    best = mean;
    found = end;
  }
  return found;
}

/// Updates the best validation, and ends training if the target is reached or patience is exhausted.
void Trainer::Run::judge(std::size_t epoch) {
  const Validation& last = state.validations.back();
  const double value = watched(last);
  if (state.best_validation == 0 || (larger_is_better() ? value > state.best : value < state.best)) {
    state.best = value;
    state.best_validation = state.validations.size();
    state.best_epoch = epoch + 1;
  }
  const std::size_t best = smoothed_best(), without = state.validations.size() - best;
  if (reaches_target(last)) {
    stop_reason = target_reached();  // not stored in the state: a resumed run may have another target
  } else if (config.stop.patience > 0 && without >= static_cast<std::size_t>(config.stop.patience)) {
    const bool epochs = !validates_within_epochs();
    const std::string what = epochs ? "epoch" : "validation";
    state.stopped = stop_reason = "no " + what + " was better than " +
                                  (epochs ? "epoch " + std::to_string(std::lround(state.validations[best - 1].epoch))
                                          : "that after step " + std::to_string(state.validations[best - 1].step)) +
                                  " for " + std::to_string(without) + " " + what + (without == 1 ? "" : "s");
  }
}

std::string Trainer::Run::target_reached() const {
  const std::string name = metrics.empty() ? "held-out loss" : metrics[0].name;
  return name + " reached stop.target after step " + std::to_string(state.validations.back().step);
}

}  // namespace tutti::engine
