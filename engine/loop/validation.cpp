// Validation on held-out samples: when it runs, what it measures, and what follows from the result.
#include <ATen/Functions.h>
#include <ATen/core/Tensor.h>
#include <ATen/core/grad_mode.h>
#include <c10/util/Exception.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <limits>
#include <numeric>

#include "engine/data/sampling.hpp"
#include "engine/data/tensors.hpp"
#include "engine/loop/all_or_none.hpp"
#include "engine/loop/run.hpp"

namespace tutti::engine {

/// The metric that stop.monitor names, or else the first one; null if the loss is watched.
const Metric* Trainer::Run::watched_metric() const {
  if (config.stop.monitor.empty()) return metrics.empty() ? nullptr : &metrics[0];
  const std::optional<std::size_t> found = monitored(config.stop.monitor, metrics);
  return found ? &metrics[*found] : nullptr;
}

bool Trainer::Run::larger_is_better() const {
  const Metric* metric = watched_metric();
  return metric != nullptr && metric->larger_is_better;
}

/// The divisor for configured values of the watched metric: 100 if it is a fraction, configured in percent; else 1.
double Trainer::Run::scale_of_watched() const {
  const Metric* metric = watched_metric();
  return metric != nullptr && is_share(metric->name) ? 100 : 1;
}

double Trainer::Run::watched(const Validation& found) const {
  const Metric* metric = watched_metric();
  return metric == nullptr ? found.loss : found.metrics[static_cast<std::size_t>(metric - metrics.data())].second;
}

/// The watched value, or NaN if the loss is not finite, because an accuracy is useless then.
double Trainer::Run::finite_watched(const Validation& found) const {
  return std::isfinite(found.loss) ? watched(found) : std::numeric_limits<double>::quiet_NaN();
}

/// The value that a schedule expects to fall: 1 - accuracy, if an accuracy is watched.
double Trainer::Run::error_of(const Validation& found) const {
  return larger_is_better() ? 1 - watched(found) : watched(found);
}

bool Trainer::Run::reaches_target(const Validation& found) const {
  if (config.stop.target == 0) return false;
  const double target = config.stop.target / scale_of_watched(), value = finite_watched(found);
  return larger_is_better() ? value >= target : value <= target;
}

bool Trainer::Run::validates_within_epochs() const {
  return config.validate.every_steps > 0 || config.validate.every_samples > 0;
}

/// Returns true if a validation is due after the last step, which had `samples` samples.
bool Trainer::Run::validation_is_due(std::size_t samples) const {
  const auto steps = static_cast<std::size_t>(config.validate.every_steps);
  const auto every = static_cast<std::size_t>(config.validate.every_samples);
  if (steps > 0) return state.step % steps == 0;
  return every > 0 && state.samples / every > (state.samples - samples) / every;
}

/// The last validation if it was made in the epoch that ends, or if no step was done since; else nullopt.
std::optional<Validation> Trainer::Run::validation_of_epoch() const {
  if (state.validations.empty()) return std::nullopt;
  const std::size_t before = state.epochs.empty() ? 0 : state.epochs.back().step;
  const Validation& last = state.validations.back();
  return last.step > before || last.step == state.step ? std::optional(last) : std::nullopt;
}

/// A validation with NaN for the loss and each metric.
Validation Trainer::Run::without_numbers() const {
  constexpr double none = std::numeric_limits<double>::quiet_NaN();
  Validation found{.loss = none};
  for (const Metric& each : metrics) found.metrics.emplace_back(each.name, none);
  return found;
}

/// Validates, if due, after the last step of an epoch, or of the part of an epoch with which training ends.
void Trainer::Run::validate_at_end(std::size_t epoch, std::size_t steps, std::size_t samples) {
  if (!state.validations.empty() && state.validations.back().step == state.step) return;
  const bool ends = steps < loader.steps() || !stop_reason.empty() || !has_more();
  if (ends || !validates_within_epochs() || schedule.observes() || validation_is_due(samples)) validate(epoch, steps);
}

/// Validates after `steps` steps of the epoch. The time is not counted in the epoch. Collective.
void Trainer::Run::validate(std::size_t epoch, std::size_t steps) {
  strategy->settle();
  flush_losses();
  if (is_elastic()) keep_buffers();
  if (!strategy->traits().has_buffers) nn::synchronize_buffers(tensors.buffers, world, buffers, tensor_device);
  Validation found = evaluate_averages();
  found.step = state.step;
  found.epoch = static_cast<double>(epoch) + static_cast<double>(steps) / static_cast<double>(loader.steps());
  state.validations.push_back(found);
  judge(epoch);
  if (!std::isfinite(found.loss) && config.on_nan == "stop")
    give_up("the held-out loss after step " + std::to_string(state.step) +
            " is not a finite number: look for NaN in the held-out samples, or try a smaller optimizer.lr");
  if (validates_within_epochs()) report.validation(found);
  all_or_none(everyone, [&] {
    if (folder) folder->validation(found, validates_within_epochs());
  });
  Moment now = moment(epoch);
  now.validation = &state.validations.back();
  if (hooks.on_validation) hooks.on_validation(now);
  times.clock().skip();
}

/// The number of held-out samples that a validation uses.
std::size_t Trainer::Run::held_out() const {
  const auto limit = static_cast<std::size_t>(config.validate.limit);
  return limit > 0 ? std::min(limit, data.test->size()) : data.test->size();
}

/// Input and target of held-out samples, on the network's device.
std::pair<at::Tensor, at::Tensor> Trainer::Run::held_out_tensors(std::span<const SampleId> ids) const {
  const Batch batch = collate(*data.test, ids, data.preparation());
  at::Tensor input = to_tensor(batch[data.inputs[0]]).to(tensor_device.tensors());
  if (input.is_floating_point()) input = input.to(type);
  return {input, to_tensor(batch[data.target]).to(tensor_device.tensors())};
}

/// Calls `use` with held-out samples in their order, as many at a time as a forward pass of training, and at most 256.
void Trainer::Run::for_held_out(Range samples, const std::function<void(std::span<const SampleId>)>& use) const {
  for (std::size_t done = 0; done < samples.count;) {
    std::vector<SampleId> ids(std::min({std::size_t{256}, largest_piece(), samples.count - done}));
    std::iota(ids.begin(), ids.end(), SampleId{samples.begin + done});
    use(ids);
    done += ids.size();
  }
}

/// Adds the loss and the metrics, summed over these held-out samples, to `totals`. If `all` is not empty, writes
/// outputs and targets to it: first the outputs of all samples, then their targets.
void Trainer::Run::evaluate(Range samples, std::span<double> totals, std::span<double> all) {
  for_held_out(samples, [&](std::span<const SampleId> ids) {
    const auto [input, target] = held_out_tensors(ids);
    const at::Tensor output = forward(input);
    const auto count = static_cast<double>(ids.size());
    totals[0] += loss(output, target).item<double>() * count;
    for (std::size_t i = 0; i < metrics.size(); ++i)
      if (metrics[i].mean) totals[i + 1] += metrics[i].mean(output, target) * count;
    for (std::size_t half = 0; half < 2 && !all.empty(); ++half) {
      const at::Tensor numbers = (half == 0 ? output : target).to(at::kCPU, at::kDouble).contiguous();
      if (static_cast<std::size_t>(numbers.numel()) != ids.size())
        refuse("a metric of all samples is for networks with one output: this one has more");
      std::copy_n(numbers.data_ptr<double>(), ids.size(),
                  all.begin() + static_cast<std::ptrdiff_t>(half * all.size() / 2 + ids[0]));
    }
  });
}

/// Evaluates the network on the held-out samples. With grains (batch.grains) the division of samples and the order of
/// sums do not depend on the number of ranks. Collective.
Validation Trainer::Run::evaluate() {
  const at::NoGradGuard no_grad;
  set_training(network, false);
  const std::size_t samples = held_out(), width = 1 + metrics.size();
  const int parts = grains > 0 ? static_cast<int>(std::max(grains, (samples + 255) / 256)) : world.size();
  const Range mine = share(static_cast<std::size_t>(parts), world.rank(), world.size());
  std::vector<double> totals((grains > 0 ? static_cast<std::size_t>(parts) : 1) * width);
  const bool wants_all = std::ranges::any_of(metrics, [](const Metric& each) { return bool(each.of_all); });
  std::vector<double> all(wants_all ? 2 * samples : 0);
  for (std::size_t part = mine.begin; part < mine.begin + mine.count; ++part)
    evaluate(share(samples, static_cast<int>(part), parts),
             std::span(totals).subspan(grains > 0 ? part * width : 0, width), all);
  world.allreduce(totals, sum).wait();
  if (wants_all) world.allreduce(all, sum).wait();  // each number is nonzero on one rank only
  for (std::size_t i = width; i < totals.size(); ++i) totals[i % width] += totals[i];
  for (std::size_t i = 0; i < width; ++i) totals[i] /= static_cast<double>(samples);
  Validation found{.loss = totals[0]};
  const std::span outputs = std::span<const double>(all).first(all.size() / 2),
                  targets = std::span<const double>(all).last(all.size() / 2);
  for (std::size_t i = 0; i < metrics.size(); ++i)
    found.metrics.emplace_back(metrics[i].name,
                               metrics[i].of_all ? metrics[i].of_all(outputs, targets) : totals[i + 1]);
  return found;
}

/// Evaluates the network with the averages of its parameters, if there are any. The parameters are back afterwards,
/// also after an exception.
Validation Trainer::Run::evaluate_averages() {
  struct Swapped {
    explicit Swapped(Run& one) : run(one) { run.swap_averages(); }
    ~Swapped() { run.swap_averages(); }
    Swapped(const Swapped&) = delete;
    Swapped& operator=(const Swapped&) = delete;
    Run& run;
  } const swapped(*this);
  return evaluate();
}

/// Each rank evaluates a contiguous part of the samples, in the order of the ranks.
at::Tensor Trainer::Run::predict() {
  const at::NoGradGuard no_grad;
  set_training(network, false);
  const Range mine = share(held_out(), world.rank(), world.size());
  std::vector<at::Tensor> outputs;
  for_held_out(mine, [&](std::span<const SampleId> ids) {
    outputs.push_back(forward(held_out_tensors(ids).first).to(at::kCPU).contiguous());
  });
  std::vector<std::int64_t> shape = outputs.empty() ? std::vector<std::int64_t>(8) : outputs[0].sizes().vec();
  shape.resize(8);  // a rank without samples learns the shape of the others' outputs
  world.allreduce(shape, max).wait();
  shape.resize(static_cast<std::size_t>(std::ranges::find(shape, 0) - shape.begin()));
  shape[0] = 0;
  outputs.push_back(at::empty(shape, type));
  const at::Tensor part = at::cat(outputs).contiguous();
  shape[0] = 1;
  const auto width = static_cast<std::size_t>(c10::multiply_integers(shape));
  std::vector<std::size_t> counts;
  for (int rank = 0; rank < world.size(); ++rank) counts.push_back(share(held_out(), rank, world.size()).count * width);
  shape[0] = world.rank() == 0 ? static_cast<std::int64_t>(held_out()) : 0;
  const at::Tensor all = at::empty(shape, type);
  const DType dtype = type == at::kDouble ? DType::f64 : DType::f32;
  world
      .gatherv(ConstBuffer(part.data_ptr(), static_cast<std::size_t>(part.numel()), dtype),
               Buffer(all.data_ptr(), static_cast<std::size_t>(all.numel()), dtype), counts, 0)
      .wait();
  return world.rank() == 0 ? all : at::Tensor();
}

/// Evaluates network, loss and metrics on a few held-out samples before training, so that a run whose parts do not fit
/// together fails at its beginning.
void Trainer::Run::look_first() {
  const at::NoGradGuard no_grad;
  set_training(network, false);
  if (!config.stop.monitor.empty()) monitored(config.stop.monitor, metrics);
  std::vector<SampleId> ids(std::min({std::size_t{16}, largest_piece(), held_out()}));
  std::iota(ids.begin(), ids.end(), 0U);
  const auto [input, target] = held_out_tensors(ids);
  const at::Tensor output = forward(input);
  const bool from_table = std::filesystem::path(config.model.name).extension().empty();
  if (checks_output && data.classes == 0 && loss_info(config.loss).is_binary())
    for (const auto& part : {data.train, data.test})
      for (std::size_t i = 0; i < part->size(); i += 1 + part->size() / 1000)
        check_numbers(config.loss, to_tensor(part->get(i)[data.target]));
  if (checks_output) check_output(config.loss, targets_of(data), output, config.model.name, from_table);
  static_cast<void>(loss(output, target));
  for (const Metric& each : metrics)
    if (each.mean) each.mean(output, target);
}

/// Calls look_first() on all ranks. One rank's error is thrown on all ranks, except for a network in parts, whose
/// forward pass is collective itself.
void Trainer::Run::look_together() {
  if (network.parts) return look_first();
  all_or_none(everyone, [&] {
    try {
      look_first();
    } catch (const c10::Error& error) {
      const std::string why = error.what_without_backtrace();
      refuse("the network, the loss and the data do not fit together: " + why.substr(0, why.find('\n')));
    }
  });
}

/// Throws on all ranks if some step has a single sample on a rank and the network cannot be trained with one sample, as
/// with batch normalisation. Collective.
void Trainer::Run::look_at_one_sample() {
  if (config.sync.batch_norm || network.parts) return;
  const SampleId one[] = {0};
  const at::NoGradGuard no_grad;
  const at::Tensor sample = held_out_tensors(one).first;
  const Sampler sampler = sampler_for(config, world.rank(), world.size(), *data.train);
  const std::vector<std::size_t> last = sampler.pieces(sampler.steps() - 1), first = sampler.pieces(0);
  const bool comes_to_last = own_steps >= sampler.steps();
  const bool has_one = (comes_to_last && std::ranges::count(last, 1U) > 0) || std::ranges::count(first, 1U) > 0;
  all_or_none(everyone, [&] {
    if (!has_one) return;
    keep_buffers();
    set_training(network, true);
    const auto refuse_it = [&](const std::string& why) {
      refuse("some step has one sample on a rank, which the network cannot learn from (" +
             why.substr(0, why.find('\n')) + "): say data.last=drop, or choose a batch of which the " +
             std::to_string(data.train->size()) + " samples leave more");
    };
    try {
      forward(sample);
    } catch (const c10::Error& error) {
      refuse_it(error.what_without_backtrace());
    } catch (const Error&) {
      refuse_it("its BatchNorm has nothing to normalise over");
    }
    restore_buffers();
  });
}

bool Trainer::Run::best_is_now() const {
  return state.best_validation == state.validations.size() && !state.validations.empty() &&
         state.validations.back().step == state.step;
}

/// The number, from 1, of the last validation that set a new best: its mean with the stop.smooth - 1 validations before
/// it is better than the best one before by more than stop.min_delta. 0: no mean is a finite number.
std::size_t Trainer::Run::smoothed_best() const {
  const auto window = static_cast<std::size_t>(config.stop.smooth);
  const double least = config.stop.min_delta / scale_of_watched();
  double best = 0;
  std::size_t found = 0;
  for (std::size_t end = 1; end <= state.validations.size(); ++end) {
    const std::size_t begin = end - std::min(window, end);
    double mean = 0;
    for (std::size_t i = begin; i < end; ++i)
      mean += finite_watched(state.validations[i]) / static_cast<double>(end - begin);
    if (!std::isfinite(mean)) continue;
    if (found > 0 && !(larger_is_better() ? mean > best + least : mean < best - least)) continue;
    best = mean;
    found = end;
  }
  return found;
}

/// Updates the best validation, and ends training if the target is reached or patience is exhausted.
void Trainer::Run::judge(std::size_t epoch) {
  const Validation& last = state.validations.back();
  const double value = finite_watched(last);
  const bool is_better = state.best_validation == 0 || (larger_is_better() ? value > state.best : value < state.best);
  if (std::isfinite(value) && is_better) {
    state.best = value;
    state.best_validation = state.validations.size();
    state.best_epoch = epoch + 1;
  }
  const std::size_t best = smoothed_best(), since = std::max(best, state.patient_since);
  const std::size_t without = state.validations.size() - since;
  if (reaches_target(last)) {
    stop_reason = target_reached();  // not stored in the state: a resumed run may have another target
  } else if (config.stop.patience > 0 && without >= static_cast<std::size_t>(config.stop.patience)) {
    const bool epochs = !validates_within_epochs();
    const std::string what = epochs ? "epoch" : "validation";
    const std::string than = best == 0 ? "no number at all"
                             : epochs  ? "epoch " + std::to_string(std::lround(state.validations[best - 1].epoch))
                                       : "that after step " + std::to_string(state.validations[best - 1].step);
    state.stopped = stop_reason = "no " + what + " was better than " + than + " for " + std::to_string(without) + " " +
                                  what + (without == 1 ? "" : "s");
  }
}

std::string Trainer::Run::target_reached() const {
  const std::string name = watched_metric() == nullptr ? "held-out loss" : watched_metric()->name;
  return name + " reached stop.target after step " + std::to_string(state.validations.back().step);
}

}  // namespace tutti::engine
