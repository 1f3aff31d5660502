// Trainer: data-parallel training of a network, with hooks, checkpoints and a report.
#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "engine/config.hpp"
#include "engine/config/tables.hpp"
#include "engine/data/data_split.hpp"
#include "engine/data/sample.hpp"
#include "engine/loop/agreement.hpp"
#include "engine/loop/committed.hpp"
#include "engine/models/network.hpp"
#include "engine/optimizers/losses.hpp"
#include "engine/report/report.hpp"
#include "engine/strategies/stats.hpp"
#include "tutti/communicator.hpp"

namespace tutti::engine {

struct ModelSettings;
class Optimizer;
struct Replica;
class Strategy;
class Trainer;

/// The network that config.model names, for this data. Its initial values come from config.seed, or from the file
/// model.from (engine/loop/weights.hpp), so they are equal on every rank. Throws Error{invalid} if the samples do not
/// fit the model. One thread at a time: LibTorch's default generator is global.
Network make_network(const Config& config, const DataSplit& data);

/// The same for images of shape `image` and `classes` classes.
Network make_network(const Config& config, const ImageShape& image, std::size_t classes);

/// The kind of target that the samples of `data` have: a class, or a number of values.
Targets targets_of(const DataSplit& data);

/// The settings that make_network() passes to make_model() (engine/models/model.hpp). Throws Error{invalid} if samples
/// have several inputs.
ModelSettings settings_of(const Config& config, const DataSplit& data);

/// Distributes a network of make_network() over the mesh that config.parallel describes; does nothing if only samples
/// are distributed. Collective; all ranks pass the same arguments. Throws Error{invalid, unsupported}, in one line, if
/// a layer cannot be split (engine/models/parallel/parallel.hpp).
void spread(Network& network, const Config& config, const DataSplit& data, Communicator& world);

/// Sets network.tensor_device according to config.device: the device Communicator::device(), or the CPU. Collective;
/// blocks. Throws Error{invalid} on all ranks if the device is not available on some rank.
void choose_device(Network& network, const Config& config, Communicator& world);

/// The state of training as a hook sees it. Tensors are this rank's part of the step. Pointers are null until the
/// tensor exists; `output` is also null if this rank has no sample in the step or the step has several micro-batches.
struct Moment {
  Trainer& trainer;
  std::size_t epoch = 0;  ///< from 0
  std::size_t step = 0;   ///< from 0, over all epochs
  double learning_rate = 0;
  double loss = 0;           ///< mean over this rank's samples; set from on_forward on
  double gradient_norm = 0;  ///< of the averaged gradients; set from on_backward on, if optimizer.clip is set
  const at::Tensor* input = nullptr;
  const at::Tensor* target = nullptr;
  const at::Tensor* output = nullptr;
  const Batch* batch = nullptr;            ///< the loader's batch, with sample ids and weights among others
  const Validation* validation = nullptr;  ///< set in on_validation
  const EpochResult* result = nullptr;     ///< set in on_end_epoch and on_end
};

/// Called in this order, on every rank; on_validation also within an epoch if the configuration asks for it. In
/// on_backward the gradients are already averaged, unless the strategy exchanges something else. A hook that changes
/// training must make the same change on all ranks.
struct Hooks {
  using Hook = std::function<void(const Moment&)>;
  Hook on_start = {}, on_start_epoch = {}, on_sample = {}, on_forward = {}, on_backward = {}, on_update = {},
       on_validation = {}, on_end_epoch = {}, on_end = {};
  /// Called after each step on the training thread; may be empty. Returns what this rank has been asked to do since the
  /// last call, each request once. Ranks may return different wishes. A few steps later all ranks carry out the largest
  /// of them, after the same step.
  std::function<Wish()> wish = {};
};

/// The outcome of a run; the same on all ranks, except `exchanged`.
struct TrainResult {
  std::vector<double> losses;  ///< of each step: mean over the global batch
  std::vector<EpochResult> epochs;
  std::vector<Validation> validations;
  std::string stopped;       ///< why training ended before its last step; empty if it did not
  bool interrupted = false;  ///< by Hooks::wish or max_time; a resumed run continues bitwise as if it had not been
  /// number of the best validation, from 1; by the first metric, or by the loss if there are no metrics
  std::size_t best_validation = 0;
  std::size_t best_epoch = 0;    ///< the epoch of that validation, from 1
  bool reached_target = false;   ///< true if the last validation reached stop.target
  ExchangeStats exchanged = {};  ///< by this rank during run()
};

/// Thrown after training if the replicas differ (code() is mismatch) or could not be compared.
struct ReplicaError : Error {
  ReplicaError(const Error& why, TrainResult found)
      : Error(why.code(), why.what(), why.culprit()), result(std::move(found)) {}
  TrainResult result;  ///< the value that run() would have returned
};

/// Thrown at the end of a run that ended early because the loss or gradients were not finite: at the first such step
/// with on_nan=stop, after 100 in a row with on_nan=skip. All results up to there are written; culprit() is 0. If ranks
/// have different gradients, one rank alone may throw it within a step, and the other ranks do not know; then culprit()
/// is -1 and `result` is empty.
struct DivergedError : Error {
  DivergedError(const std::string& why, TrainResult found) : Error(Code::invalid, why, 0), result(std::move(found)) {}
  explicit DivergedError(const std::string& why) : Error(Code::invalid, why) {}
  TrainResult result;  ///< up to the failed step; gradients that are not finite changed no parameters
};

/// Samples for one extra step, from a data set other than the trainer's. `ids` are those of all ranks of the trainer.
struct Further {
  std::shared_ptr<const Dataset> data;
  std::vector<SampleId> ids;  ///< empty: no step
  std::size_t step = 0;       ///< the step of the schedule whose learning rate is used
};

/// The objects that a run works with. Members that are left empty are made from the configuration.
struct Task {
  Network network;
  DataSplit data;
  Loss loss = {};
  std::vector<Metric> metrics = {};
  /// Makes the optimizer; the same on every rank.
  std::function<std::unique_ptr<Optimizer>(const Network&)> optimizer = {};
  /// Makes the strategy (engine/strategies/strategy.hpp) instead of config.strategy. Collective.
  std::function<std::unique_ptr<Strategy>(const Config&, const Replica&)> strategy = {};
  /// Number of the trainer's own steps that are already done; not called if checkpoint.resume is set. Collective.
  std::function<std::size_t()> done = {};
  /// Called before each of the trainer's own steps with the step's number, counted over all epochs. If it returns
  /// false, other trainers do this step and the rest of its epoch. Collective.
  std::function<bool(std::size_t step)> may_begin = {};
  /// Called after the steps of each epoch, repeatedly until it returns no samples; each result is one extra step.
  /// `is_last`: true if the last of the trainer's own steps is done. Collective.
  std::function<Further(std::size_t epoch, bool is_last)> further = {};
};

/// Trains a network on all ranks of a communicator. The global batch is config.batch.global, whatever the number of
/// ranks.
///
/// By default gradients are averaged while backward runs, weighted by samples, so losses equal those of one process.
/// With other values of config.strategy ranks exchange other things (engine/strategies/strategy.hpp) and have equal
/// parameters at the end of each epoch. For a network over a mesh (spread()) samples are distributed along the axis
/// `data`, and checkpoints hold whole tensors, so that a run can resume on another mesh. Buffers, such as running
/// statistics, are local to each rank during an epoch; config.sync.buffers says how they are made equal before
/// validation. Random numbers in a step (dropout) depend on seed, step and rank.
///
/// With config.deterministic=membership, losses and parameters are bitwise independent of the number of ranks, also
/// across a resume with another number; this holds for processes with the same number of threads on the same type of
/// processor.
///
/// Rank 0 writes checkpoints into the folder config.run as config.checkpoint says. A run that resumes on the same
/// number of ranks continues bitwise equal, except that buffers which differ between ranks (sync.buffers=local, or
/// average within an epoch) become those of rank 0. On another number of ranks every sample of the epoch is still seen
/// once. All ranks read the folder, so it must be accessible from all hosts.
///
/// All calls are collective and made by one thread; the data must be the same on all ranks. Errors are tutti::Error,
/// thrown on all ranks.
class Trainer {
 public:
  /// Moves the network to its device. Throws Error{invalid} if the configuration contradicts itself or does not fit the
  /// task.
  Trainer(const Config& config, Communicator world, Task task, Hooks hooks = {});
  ~Trainer();
  Trainer(const Trainer&) = delete;
  Trainer& operator=(const Trainer&) = delete;

  /// Trains to the end and compares the replicas. Throws, after on_end, ReplicaError if they differ, and DivergedError
  /// if training was given up.
  TrainResult run();

  /// As run(), from the state that committed() of this or another rank's trainer has returned, instead of the beginning
  /// or a checkpoint.
  TrainResult run_from(const Committed& state);
  /// With config.elastic, after run() has thrown because a rank was lost: the state after the last step that is done.
  /// Number -1 if there is none. This trainer cannot go on. Local.
  Committed committed();
  /// What this rank was asked to do (Hooks::wish) and has not done yet.
  Wish open_wish() const;

  /// Evaluates the network on the held-out samples without training it. Returns the same values on all ranks.
  Validation validate();
  /// The network's outputs for the held-out samples in their order, (samples, outputs...), on the first rank, on the
  /// CPU; undefined on the others.
  at::Tensor predict();

  // For hooks:

  /// Ends training after this step; in on_end_epoch, after this epoch.
  void stop(std::string why);
  /// Replaces the schedule's rate from the next step on.
  void set_learning_rate(double rate);
  const Network& network() const noexcept;
  Optimizer& optimizer() noexcept;
  /// The strategy, whose numbers hooks may set.
  Strategy& strategy() noexcept;

 private:
  struct Run;
  std::unique_ptr<Run> run_;
};

/// Runs a Trainer on `network` and `data`; everything else is made from the configuration.
TrainResult train(const Config& config, Communicator world, Network network, const DataSplit& data, Hooks hooks = {});

}  // namespace tutti::engine
