#include "engine/loop/parallelize.hpp"

#include <chrono>
#include <cmath>
#include <string>
#include <utility>

namespace tutti::engine {
namespace {

double now() { return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count(); }

Sampler sampler_for(std::size_t samples, const Communicator& world, const ParallelOptions& options) {
  return Sampler({.samples = samples,
                  .batch = options.batch,
                  .rank = world.rank(),
                  .size = world.size(),
                  .seed = options.seed,
                  .way = options.way,
                  .remainder = options.remainder,
                  .shuffled = options.shuffled,
                  .shuffle = default_shuffle(samples)});
}

void check(const ParallelOptions& options) {
  if (options.period < manual)
    throw Error(Code::invalid, "a period of " + std::to_string(options.period) +
                                   " steps: expected 1 or more, 0 for an automatic one, or -1 for a manual one");
  if (options.period == automatic && !(options.most_communication > 0 && options.most_communication < 1))
    throw Error(Code::invalid, "most_communication is a part of the time: expected a number between 0 and 1");
}

}  // namespace

int period_for(double compute_seconds, double exchange_seconds, double most) {
  if (exchange_seconds <= 0) return 1;
  // the smallest n with exchange / n <= most (compute + exchange / n)
  const double least = exchange_seconds * (1 - most) / (most * std::max(compute_seconds, 1e-9));
  return static_cast<int>(std::min(std::max(std::ceil(least - 1e-9), 1.0), 1e6));
}

int period_by_size(std::size_t samples) { return samples < 1000 ? 1 : samples < 2500 ? 10 : samples < 5000 ? 50 : 100; }

Parallel::Parallel(std::vector<nn::NamedTensor> parameters, std::vector<nn::NamedTensor> buffers, std::size_t samples,
                   Communicator world, const ParallelOptions& options)
    : options_(options), world_(std::move(world)), buffers_(std::move(buffers)), sampler_([&] {
        check(options);
        return sampler_for(samples, world_, options);
      }()) {
  nn::synchronize_parameters(parameters, world_);
  nn::synchronize_parameters(buffers_, world_);
  period_ = options.period == automatic ? 1 : options.period;
  if (period_ != 1 || options.period == automatic)
    average_ = std::make_unique<nn::ParameterAverage>(parameters, world_);
  sync_ = std::make_unique<nn::GradientSync>(std::move(parameters), world_, options.buckets);
}

void Parallel::start_epoch(std::size_t epoch) {
  sampler_.start_epoch(epoch);
  step_ = 0;
}

bool Parallel::next() {
  if (step_ == sampler_.steps()) {
    nn::synchronize_buffers(buffers_, world_, options_.buffers);
    return false;
  }
  ++step_;
  samples_ = sampler_.local(step_ - 1);
  begun_ = now();
  quiet_.reset();
  sync_->zero_grad();
  if (due())
    sync_->weight(static_cast<double>(samples().size()) / static_cast<double>(sampler_.global_count(step_ - 1)));
  else
    quiet_.emplace(*sync_);
  return true;
}

bool Parallel::due() const {
  return period_ != manual && (step_ % static_cast<std::size_t>(period_) == 0 || step_ == sampler_.steps());
}

bool Parallel::exchange() {
  if (!due()) return false;
  const double before = now();
  synchronize();
  if (options_.period == automatic && steps_measured_ < options_.measured_steps) measure(now() - before);
  return true;
}

void Parallel::synchronize() {
  if (quiet_) {
    quiet_.reset();
    sync_->weight(static_cast<double>(samples().size()) / static_cast<double>(sampler_.global_count(step_ - 1)));
  }
  sync_->finish();
  if (period_ != 1) average_->now();
  ++exchanges_;
}

/// The first step is not measured, because it allocates what later steps reuse.
void Parallel::measure(double exchange_seconds) {
  if (++steps_measured_ == 1) times_ = {0, 0};
  if (steps_measured_ > 1) {
    times_[0] += now() - begun_;
    times_[1] += exchange_seconds;
  }
  if (steps_measured_ < options_.measured_steps) return;
  world_.allreduce(times_, avg).wait();
  period_ = period_for(times_[0] - times_[1], times_[1], options_.most_communication);
}

Parallel parallelize(torch::nn::Module& module, std::size_t samples, Communicator world,
                     const ParallelOptions& options) {
  return Parallel(nn::named_parameters(module), nn::named_buffers(module), samples, std::move(world), options);
}

Parallel parallelize(torch::nn::Module& module, const Dataset& data, Communicator world,
                     const ParallelOptions& options) {
  return parallelize(module, data.size(), std::move(world), options);
}

}  // namespace tutti::engine
