// Trainer::Run: the private data of a Trainer, for its own source files.
#pragma once

#include <ATen/core/Tensor.h>

#include <chrono>
#include <exception>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "engine/checkpoint/history.hpp"
#include "engine/checkpoint/saver.hpp"
#include "engine/checkpoint/stage.hpp"
#include "engine/checkpoint/state.hpp"
#include "engine/data/loader.hpp"
#include "engine/data/sample_log.hpp"
#include "engine/loop/agreement.hpp"
#include "engine/loop/committed.hpp"
#include "engine/loop/feed.hpp"
#include "engine/loop/run_folder.hpp"
#include "engine/loop/step_losses.hpp"
#include "engine/models/model.hpp"
#include "engine/models/parallel/parts.hpp"
#include "engine/optimizers/optimizer.hpp"
#include "engine/optimizers/schedules.hpp"
#include "engine/report/run_log.hpp"
#include "engine/report/step_times.hpp"
#include "engine/strategies/strategy.hpp"
#include "engine/trainer.hpp"
#include "nn/synchronize.hpp"

namespace tutti::engine {

/// Copies of tensors on the host.
Fields copies(const std::vector<nn::NamedTensor>& tensors);

struct Trainer::Run {
  Run(const Config& config, Communicator world, Task task, Hooks hooks, Trainer& trainer);

  // Defined in trainer.cpp: the training loop.
  void begin(const Committed* from);
  TrainResult run(const Committed* from);
  bool train_epoch(std::size_t epoch);
  void tell(std::size_t epoch, std::size_t step, double samples);
  void end_epoch(std::size_t epoch, double samples);
  void announce();
  void write_trace();
  std::size_t largest_piece() const;
  std::unique_ptr<Feed> make_feed() const;
  Moment moment(std::size_t epoch) { return {.trainer = trainer, .epoch = epoch, .step = state.step}; }
  void call(const Hooks::Hook& hook, const Moment& moment) {
    if (!hook) return;
    const Phase before = times.clock().enter(Phase::other);
    hook(moment);
    times.clock().enter(before);
  }

  // Defined in validation.cpp: validation on held-out samples.
  const Metric* watched_metric() const;
  bool larger_is_better() const;
  double scale_of_watched() const;
  double watched(const Validation& found) const;
  double finite_watched(const Validation& found) const;
  double error_of(const Validation& found) const;
  bool reaches_target(const Validation& found) const;
  std::string target_reached() const;
  bool validates_within_epochs() const;
  bool validation_is_due(std::size_t samples) const;
  std::optional<Validation> validation_of_epoch() const;
  Validation without_numbers() const;
  void validate_at_end(std::size_t epoch, std::size_t steps, std::size_t samples);
  void validate(std::size_t epoch, std::size_t steps);
  void for_held_out(Range samples, const std::function<void(std::span<const SampleId>)>& use) const;
  void evaluate(Range samples, std::span<double> totals, std::span<double> all);
  void look_first();
  void look_together();
  void look_at_one_sample();
  std::size_t held_out() const;
  std::pair<at::Tensor, at::Tensor> held_out_tensors(std::span<const SampleId> ids) const;
  Validation evaluate();
  Validation evaluate_averages();
  at::Tensor predict();
  void judge(std::size_t epoch);
  bool best_is_now() const;
  std::size_t smoothed_best() const;

  /// The trainer's own steps that are done or were left to others (Task::may_begin).
  std::size_t own_done() const noexcept { return state.step - state.further + state.given; }
  bool has_more() const noexcept { return own_done() < own_steps; }

  // Defined in step.cpp: one step.
  void exchange(const std::function<void()>& call);
  double rate_of(std::size_t place) const;
  void train_step(std::size_t epoch, Batch& batch, std::size_t place);
  void train_further(std::size_t epoch, std::size_t& samples);
  void pieces(const Batch& batch, const at::Tensor& input, const at::Tensor& target, Moment& moment);
  double piece(const at::Tensor& input, const at::Tensor& target, double share, double weight, Moment& moment);
  std::pair<at::Tensor, at::Tensor> tensors_of(const Batch& batch) const;
  at::Tensor forward(const at::Tensor& input) const;
  void seed_draws(std::size_t who) const;
  void update(Moment& now);
  bool is_finite_step(const Moment& now);
  void leave_out(const Moment& now);
  void keep_buffers();
  void restore_buffers();
  void move_averages();
  void swap_averages();
  void take_losses();
  void flush_losses();
  void give_up(const std::string& why);

  // Defined in wishes.cpp: requests to the running training.
  void hear(std::size_t epoch, std::size_t exchanges_before, bool ends_epoch);
  Wish open_wish() const;
  bool is_to_end() const noexcept { return asked >= Wish::time_is_over; }
  void interrupt(std::size_t epoch);
  void validate_if_missed(std::size_t epoch, std::size_t steps);
  void write_losses(std::span<const double> losses);
  void all_written();

  // Defined in checkpoints.cpp: saving and resuming.
  bool keeps_checkpoints() const;  // during training, not only at the end
  bool keeps_the_best() const;
  void save_if_due(std::size_t epoch);
  void save_after(std::size_t epoch);
  void save(std::size_t epoch, bool epoch_ended);
  using KeptTensors = std::vector<std::pair<std::string, std::vector<nn::NamedTensor>>>;  ///< by file
  /// Files of this rank that are copied while they are written.
  struct Staged {
    std::vector<StagedFile> files = {};
    std::size_t most = 0;    ///< most bytes of copies at a time
    std::string index = {};  ///< text of shards.json; empty: the files are no shards
  };
  KeptTensors kept_tensors(std::size_t rank) const;
  void save_at_root(std::size_t epoch, bool epoch_ended, const KeptTensors& kept);
  Staged staged_files(const KeptTensors& kept) const;
  Staged shard_of(const KeptTensors& kept) const;
  void save_together(std::size_t epoch, bool epoch_ended, Staged mine);
  RunState state_at(std::size_t epoch, bool epoch_ended);
  std::string state_text(std::size_t epoch, bool epoch_ended);
  std::function<void()> history_of_now();
  std::map<std::string, std::string> checkpoint_metadata() const;
  std::vector<nn::NamedTensor> named_averages() const;
  void resume();
  void go_on_after(std::size_t steps);
  std::vector<nn::NamedTensor> read(const std::filesystem::path& from);
  /// Where the tensors of a state come from: a checkpoint, or memory.
  struct Source {
    std::string name;
    std::function<bool(const std::string& file)> has;
    std::function<Fields(const std::string& file)> arrays;
    bool any_batch = false;  ///< true: the state may be of a run with another batch.global
  };
  std::vector<nn::NamedTensor> take(RunState kept, const Source& from);
  std::vector<nn::NamedTensor> wholes(std::vector<nn::NamedTensor> mine) const;
  void load(const Fields& arrays, const std::string& file);

  // Defined in commits.cpp: what an elastic run goes on from when ranks die or join.
  bool is_elastic() const { return config.elastic.is_on(); }
  void commit(std::size_t epoch, bool epoch_ended);
  void commit_start(const Committed* from);
  bool may_commit(std::size_t exchanges_before) const;
  std::map<std::string, Fields> copies_of_all() const;
  Committed committed();
  void adopt(const Committed& from);
  void count_steps_again();

  const Config config;
  Communicator everyone;  ///< all ranks of the run
  Communicator world;     ///< the ranks with different samples: for a network over a mesh those along `data`, else all
  Network network;
  nn::TensorDevice& tensor_device;
  const NetworkTensors tensors;
  const nn::BufferPolicy buffers;
  const at::ScalarType type;
  const DataSplit data;
  const Loss loss;
  const std::vector<Metric> metrics;
  const bool checks_output;  ///< true if loss and network come from the configuration
  const std::function<std::size_t()> steps_done;
  const std::function<bool(std::size_t)> may_begin;
  const std::function<Further(std::size_t, bool)> further;
  const Hooks hooks;
  Trainer& trainer;
  const std::size_t grains;  ///< micro-batches per step if results must not depend on the number of ranks; else 0

  Schedule schedule;
  std::optional<double> set_rate;  ///< the rate that a hook has set
  std::unique_ptr<Feed> feed;      ///< for training on a device; else null
  Loader loader;
  std::unique_ptr<Optimizer> optimizer;
  std::unique_ptr<Strategy> strategy;
  StepTimes times;
  Report report;
  std::unique_ptr<RunFolder> folder;    ///< on rank 0, if the run has a folder
  std::unique_ptr<History> history;     ///< on rank 0, if the run has a folder
  std::string fresh_history;            ///< lines that `history` has noted and that are not written yet
  std::optional<Communicator> writers;  ///< for checkpoints that ranks write together; made for the first one
  std::unique_ptr<Saver> saver;         ///< on rank 0 if the run has a folder, and on ranks that write; uses `history`

  std::size_t own_steps = 0;  ///< the trainer's own steps of the whole run
  RunState state;
  bool tracing = false;                    ///< true until the trace is complete
  std::string stop_reason;                 ///< why training ends; empty while it continues
  bool interrupted = false;                ///< by a wish or max_time
  std::string failure;                     ///< why training was given up; then equal to stop_reason; else empty
  std::size_t left_out = 0;                ///< number of steps in a row, up to the last one, without an update
  std::vector<at::Tensor> buffers_before;  ///< copies from before the step
  bool buffers_are_between = false;        ///< the buffers are those of a step that is not done
  /// The last commit: the state without its lists, the lengths of these, its number, and copies of the tensors if ranks
  /// change parameters on their own.
  struct Mark {
    RunState state;
    std::size_t losses = 0, epochs = 0, validations = 0;
    std::int64_t number = -1;
    std::map<std::string, Fields> tensors = {};
  } mark;
  std::vector<at::Tensor> averages;  ///< of the parameters (optimizer.ema), from the first step on
  double last_loss = 0;              ///< of the last step, mean over this rank's samples
  StepLosses losses;
  std::span<double> loss_of_step;  ///< this rank's sums of the step in `losses`

  Agreement agreement;
  const Deadline ends_at;                 ///< the time at which max_time is over
  Wish wished = Wish::nothing;            ///< of this rank, not yet passed to `agreement`
  Wish known = Wish::nothing;             ///< the largest wish that all ranks know
  Wish asked = Wish::nothing;             ///< the wish that all ranks act on after this step
  std::unique_ptr<LossFile> loss_file;    ///< on rank 0, if the configuration names one
  std::unique_ptr<SampleLog> sample_log;  ///< of this process, if the configuration names a folder
  std::exception_ptr unwritten;           ///< on rank 0: why losses could not be written
};

}  // namespace tutti::engine
