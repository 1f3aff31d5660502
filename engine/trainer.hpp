// Trainer: data-parallel training of a network, with hooks, checkpoints and a report.
#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "collectives/api/communicator.hpp"
#include "engine/config.hpp"
#include "engine/data/sample.hpp"
#include "engine/data/source.hpp"
#include "engine/losses.hpp"
#include "engine/models/network.hpp"
#include "engine/optimizers/table.hpp"
#include "engine/report.hpp"
#include "engine/strategies/stats.hpp"

namespace tutti::engine {

class Optimizer;
struct Replica;
class Strategy;
class Trainer;

/// The network that config.model names, for this data, initialised from config.seed: the same on every rank. Throws
/// Error{invalid} if the samples do not suit it. One thread at a time: LibTorch has one random generator.
Network make_network(const Config& config, const DataSplit& data);

/// The same for images of a shape and a number of classes.
Network make_network(const Config& config, const ImageShape& image, std::size_t classes);

/// Cuts a network of make_network() over the mesh that config.parallel means; leaves it as it is where only samples are
/// in parts. Collective; the same on all ranks. Throws Error{invalid} or {unsupported} in one line for what cannot be
/// split (engine/models/parallel.hpp).
void spread(Network& network, const Config& config, const DataSplit& data, Communicator& world);

/// Says where `network` is to be trained, as config.device has it: a device by Communicator::device(), or the CPU.
/// Collective; blocks. Throws Error{invalid} on all ranks alike where that cannot be.
void settle(Network& network, const Config& config, Communicator& world);

/// Where training is, as a hook sees it. Tensors are this rank's part; null before they exist, and
/// `output` also when the rank has no sample in this step, or the step is cut into several micro-batches.
struct Moment {
  Trainer& trainer;
  std::size_t epoch = 0;  ///< from 0
  std::size_t step = 0;   ///< from 0, over all epochs
  double learning_rate = 0;
  double loss = 0;           ///< mean over this rank's samples; from on_forward on
  double gradient_norm = 0;  ///< of the averaged gradients; from on_backward on, where optimizer.clip is set
  const at::Tensor* input = nullptr;
  const at::Tensor* target = nullptr;
  const at::Tensor* output = nullptr;
  const Batch* batch = nullptr;            ///< what the loader gave: sample numbers and weights, among others
  const Validation* validation = nullptr;  ///< in on_validation
  const EpochResult* result = nullptr;     ///< in on_end_epoch and on_end
};

/// Called in this order, on every rank alike; on_validation also within an epoch, where the configuration says so. In
/// on_backward the gradients are already averaged, unless the strategy has it otherwise. What hooks change must be
/// changed on all ranks alike.
struct Hooks {
  using Hook = std::function<void(const Moment&)>;
  Hook on_start = {}, on_start_epoch = {}, on_sample = {}, on_forward = {}, on_backward = {}, on_update = {},
       on_validation = {}, on_end_epoch = {}, on_end = {};
};

/// The same on all ranks, but for `exchanged`.
struct TrainResult {
  std::vector<double> losses;  ///< mean over the global batch, of each step
  std::vector<EpochResult> epochs;
  std::vector<Validation> validations;
  std::string stopped;              ///< why it ended before its last step; empty: it did not
  std::size_t best_validation = 0;  ///< from 1, by the first metric, or by the loss where there is none
  std::size_t best_epoch = 0;       ///< in which that was, from 1
  bool reached_target = false;      ///< by the last validation
  ExchangeStats exchanged = {};     ///< of this run() on this rank
};

/// Training ended, but then the replicas were found to differ (code() is mismatch) or could not be compared.
struct ReplicaError : Error {
  ReplicaError(const Error& why, TrainResult found)
      : Error(why.code(), why.what(), why.culprit()), result(std::move(found)) {}
  TrainResult result;  ///< what run() would have returned
};

/// Samples that are trained in one step though they do not belong to the trainer's data; of all its ranks together.
struct Further {
  std::shared_ptr<const Dataset> data;
  std::vector<std::uint32_t> ids;  ///< empty: there are none
};

/// What a run is about. Empty members are made from the configuration.
struct Task {
  Network network;
  DataSplit data;
  Loss loss = {};
  std::vector<Metric> metrics = {};
  /// Makes the optimizer of these parameters, on every rank alike.
  std::function<std::unique_ptr<Optimizer>(const Network&)> optimizer = {};
  /// Makes what exchanges (engine/strategies/strategy.hpp), in place of config.strategy. Collective.
  std::function<std::unique_ptr<Strategy>(const Config&, const Replica&)> strategy = {};
  /// Steps of the trainer's own that are done already, where no checkpoint is resumed. Collective.
  std::function<std::size_t()> done = {};
  /// Asked when the steps of an epoch are done, until there are none; `is_last`: those of the run are. These steps have
  /// the learning rate of the next one of the trainer's own. Collective.
  std::function<Further(std::size_t epoch, bool is_last)> further = {};
};

/// Trains a network on all ranks of a communicator, at one global batch whatever their number.
///
/// Gradients are averaged while backward runs, weighted by samples, so that the losses are those of one process; or
/// ranks exchange other things, as config.strategy says (engine/strategies/strategy.hpp), and end each epoch alike.
/// A network over a mesh (spread()) has its samples dealt out along the mesh's axis data, and is kept as a whole, so
/// that ranks in any other mesh can go on with it. Buffers, such as running statistics, are each rank's own during an
/// epoch; config.sync.buffers says what becomes of them at its end, before the held-out samples are looked at. What is
/// drawn at random in a step (dropout) depends on seed, step and rank. With config.deterministic membership no bit of
/// losses and network depends on the ranks, nor on how many there were before a run was resumed; it holds for processes
/// with as many threads on processors of one kind. Rank 0 keeps checkpoints in the folder config.run, as
/// config.checkpoint says. A run that resumes from one continues with the same bits on as many ranks, except that
/// buffers which ranks do not share (sync.buffers=local, and average within an epoch) become rank 0's; on another
/// number of ranks every sample of the epoch is still seen once. All ranks read the folder, so all their hosts must
/// have it.
///
/// All calls are collective and made by one thread; the data must be the same on all ranks. They throw tutti::Error, on
/// all ranks alike.
class Trainer {
 public:
  /// Moves the network to its site. Throws Error{invalid} for what the configuration asks in vain.
  Trainer(const Config& config, Communicator world, Task task, Hooks hooks = {});
  ~Trainer();
  Trainer(const Trainer&) = delete;
  Trainer& operator=(const Trainer&) = delete;

  /// Trains to the end and compares the replicas. Throws ReplicaError after on_end if they differ.
  TrainResult run();

  // For hooks.

  /// Ends training after this step, or this epoch in on_end_epoch.
  void stop(std::string why);
  /// Takes the place of the schedule's rate from the next step on.
  void set_learning_rate(double rate);
  const Network& network() const noexcept;
  Optimizer& optimizer() noexcept;
  /// What its numbers are set by.
  Strategy& strategy() noexcept;

 private:
  struct Run;
  std::unique_ptr<Run> run_;
};

/// A Trainer's run, for a network and data with all else from the configuration.
TrainResult train(const Config& config, Communicator world, Network network, const DataSplit& data, Hooks hooks = {});

}  // namespace tutti::engine
