// parallelize(): one call that makes a training loop of one's own data-parallel.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "collectives/api/communicator.hpp"
#include "engine/data/dataset.hpp"
#include "engine/data/sampler.hpp"
#include "nn/gradient_sync.hpp"
#include "nn/parameter_average.hpp"
#include "nn/synchronize.hpp"

namespace tutti::engine {

/// Steps between exchanges that are no number of steps.
inline constexpr int manual = -1;    ///< only where synchronize() is called
inline constexpr int automatic = 0;  ///< measured; see ParallelOptions::most_communication

struct ParallelOptions {
  std::size_t batch = 64;  ///< samples of a step, of all ranks together
  std::uint64_t seed = 0;  ///< of the order of the samples
  bool shuffled = true;
  Way way = Way::batch;
  Remainder remainder = Remainder::uneven;  ///< so that no sample is lost
  int period = 1;                           ///< steps from one exchange to the next, or manual, or automatic
  /// automatic: the smallest period with which exchanging takes at most this part of the time.
  double most_communication = 0.1;
  std::size_t measured_steps = 10;  ///< automatic: that the period is measured in, exchanging in each of them
  nn::BufferPolicy buffers = nn::BufferPolicy::broadcast;  ///< at the end of each epoch
  nn::BucketOptions buckets = {};
};

/// The smallest period n whose exchange of so many seconds, once in n steps, takes at most the part `most` of the time.
int period_for(double compute_seconds, double exchange_seconds, double most);

/// TorchAD-NN's rule, by this rank's samples: 1 below 1000, 10 below 2500, 50 below 5000, else 100.
int period_by_size(std::size_t samples);

/// A network on all ranks, and this rank's share of the samples:
///
///     auto parallel = engine::parallelize(*model, samples, world, {.batch = 256});
///     for (std::size_t epoch = 0; epoch < epochs; ++epoch) {
///       parallel.start_epoch(epoch);
///       while (parallel.next()) {                 // gradients are cleared
///         if (!parallel.samples().empty()) loss(parallel.samples()).backward();   // the mean over its own samples
///         parallel.exchange();                    // before the optimizer's step
///         optimizer.step();
///       }
///     }
///
/// With a period of 1 the gradients of every step are averaged, weighted by samples, while backward runs; replicas stay
/// equal. With a longer one each rank trains by itself, and in every period-th step of an epoch and in its last one
/// parameters and gradients become their means (local SGD). All ranks make the same calls, one thread at a time.
class Parallel {
 public:
  Parallel(std::vector<nn::NamedTensor> parameters, std::vector<nn::NamedTensor> buffers, std::size_t samples,
           Communicator world, const ParallelOptions& options);

  void start_epoch(std::size_t epoch);
  /// Goes to the next step. False: the epoch has ended, and the buffers are as their policy has it.
  bool next();
  /// This rank's samples of the step, by number. Maybe none.
  std::span<const std::uint32_t> samples() const { return sampler_.local(step_ - 1); }
  /// Exchanges, if it is time to. Whether it was.
  bool exchange();
  /// Exchanges now: parameters and gradients become their means. Instead of exchange(), before the optimizer's step.
  void synchronize();

  std::size_t exchanges() const noexcept { return exchanges_; }  ///< so far
  int period() const noexcept { return period_; }                ///< as it is now
  const Sampler& sampler() const noexcept { return sampler_; }
  nn::GradientSync& gradients() noexcept { return *sync_; }

 private:
  bool due() const;
  void measure(double exchange_seconds);

  const ParallelOptions options_;
  Communicator world_;
  const std::vector<nn::NamedTensor> buffers_;
  Sampler sampler_;
  std::unique_ptr<nn::GradientSync> sync_;
  std::unique_ptr<nn::ParameterAverage> average_;
  std::optional<nn::GradientSync::NoSync> quiet_;  ///< in steps that exchange nothing
  int period_ = 1;
  std::size_t step_ = 0;  ///< of the epoch, from 1
  std::size_t exchanges_ = 0, steps_measured_ = 0;
  double begun_ = 0;           ///< of the step
  std::vector<double> times_;  ///< automatic: seconds of steps, of exchanges
};

/// Gives all ranks rank 0's parameters and buffers, and makes the rest. Collective; blocks. Throws Error{invalid} where
/// options contradict one another.
Parallel parallelize(torch::nn::Module& module, std::size_t samples, Communicator world = Communicator::from_env(),
                     const ParallelOptions& options = {});
Parallel parallelize(torch::nn::Module& module, const Dataset& data, Communicator world = Communicator::from_env(),
                     const ParallelOptions& options = {});

}  // namespace tutti::engine
