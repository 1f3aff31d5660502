// parallelize(): makes a hand-written training loop data-parallel with one call.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "engine/data/dataset.hpp"
#include "engine/data/sampler.hpp"
#include "nn/gradient_sync.hpp"
#include "nn/parameter_average.hpp"
#include "nn/synchronize.hpp"
#include "tutti/communicator.hpp"

namespace tutti::engine {

/// Special values of ParallelOptions::period.
inline constexpr int manual = -1;    ///< exchange only when synchronize() is called
inline constexpr int automatic = 0;  ///< choose the period by measurement; see ParallelOptions::most_communication

struct ParallelOptions {
  std::size_t batch = 64;  ///< global batch: samples per step over all ranks
  std::uint64_t seed = 0;  ///< for the order of the samples
  bool shuffled = true;
  Way way = Way::batch;
  Remainder remainder = Remainder::uneven;  ///< by default no sample is left out
  int period = 1;                           ///< steps between exchanges, or `manual` or `automatic`
  /// For `automatic`: the period is the smallest for which exchanges take at most this fraction of the time.
  double most_communication = 0.1;
  /// for `automatic`: number of first steps in which the period is measured; they all exchange
  std::size_t measured_steps = 10;
  nn::BufferPolicy buffers = nn::BufferPolicy::broadcast;  ///< policy at the end of each epoch
  nn::BucketOptions buckets = {};
};

/// The smallest period for which exchanges of `exchange_seconds` take at most the fraction `most` of the time, if a
/// step computes for `compute_seconds`.
int period_for(double compute_seconds, double exchange_seconds, double most);

/// TorchAD-NN's rule for the period, by the number of samples of this rank: 1 below 1000, 10 below 2500, 50 below 5000,
/// else 100.
int period_by_size(std::size_t samples);

/// A replica of a network on each rank, with the rank's share of the samples:
///
///     auto parallel = engine::parallelize(*model, samples, world, {.batch = 256});
///     for (std::size_t epoch = 0; epoch < epochs; ++epoch) {
///       parallel.start_epoch(epoch);
///       while (parallel.next()) {                 // clears the gradients
///         if (!parallel.samples().empty()) loss(parallel.samples()).backward();   // mean over this rank's samples
///         parallel.exchange();                    // before the optimizer's step
///         optimizer.step();
///       }
///     }
///
/// With a period of 1 gradients are averaged in every step, weighted by samples, while backward runs; replicas stay
/// equal. With a longer period ranks train independently; parameters and gradients are averaged in every period-th step
/// of an epoch and in its last step (local SGD). All ranks make the same calls in the same order, one thread at a time.
class Parallel {
 public:
  Parallel(std::vector<nn::NamedTensor> parameters, std::vector<nn::NamedTensor> buffers, std::size_t samples,
           Communicator world, const ParallelOptions& options);

  void start_epoch(std::size_t epoch);
  /// Starts the next step. Returns false at the end of the epoch, after applying the buffer policy.
  bool next();
  /// The ids of this rank's samples in the step, until the next one; may be empty.
  const std::vector<SampleId>& samples() const noexcept { return samples_; }
  /// Calls synchronize() if an exchange is due in this step. Returns true if one was due.
  bool exchange();
  /// Averages parameters and gradients now. Called instead of exchange(), before the optimizer's step.
  void synchronize();

  std::size_t exchanges() const noexcept { return exchanges_; }  ///< number of exchanges so far
  int period() const noexcept { return period_; }                ///< the current period
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
  std::optional<nn::GradientSync::NoSync> quiet_;  ///< set in steps without an exchange
  int period_ = 1;
  std::size_t step_ = 0;           ///< step of the epoch, from 1
  std::vector<SampleId> samples_;  ///< of the step
  std::size_t exchanges_ = 0, steps_measured_ = 0;
  double begun_ = 0;           ///< start time of the step
  std::vector<double> times_;  ///< for `automatic`: seconds in steps, seconds in exchanges
};

/// Broadcasts rank 0's parameters and buffers and returns a Parallel for them. Collective; blocks. Throws
/// Error{invalid} for options out of range.
Parallel parallelize(torch::nn::Module& module, std::size_t samples, Communicator world = Communicator::from_env(),
                     const ParallelOptions& options = {});
Parallel parallelize(torch::nn::Module& module, const Dataset& data, Communicator world = Communicator::from_env(),
                     const ParallelOptions& options = {});

}  // namespace tutti::engine
