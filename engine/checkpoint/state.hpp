// RunState: the state of a run, which a checkpoint keeps in state.json. Tensors are in separate files, and what grows
// as the run goes on is in the history.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <string>

#include "engine/checkpoint/history.hpp"
#include "engine/optimizers/schedules.hpp"

namespace tutti::engine {

struct RunState : RunPast {
  static constexpr const char* file = "state.json";

  std::size_t step = 0;     ///< steps done, over all epochs
  std::size_t further = 0;  ///< of these, extra steps (Task::further)
  std::size_t given = 0;    ///< the trainer's own steps that others do (Task::may_begin)
  std::size_t epoch = 0;    ///< the current epoch, from 0
  std::string sampler;      ///< Progress::text(): the samples of the epoch that have been seen
  std::string optimizer;
  std::int64_t optimizer_steps = 0;
  ScheduleState schedule = {};
  double epoch_loss = 0;            ///< sum over the samples of the epoch so far
  double epoch_samples = 0;         ///< number of these samples
  std::size_t step_samples = 0;     ///< those of the last step
  std::size_t samples = 0;          ///< samples seen by all ranks together; padding is not counted
  double best = 0;                  ///< the best value of the watched metric
  std::size_t best_validation = 0;  ///< number of that validation, from 1; 0: none yet
  std::size_t best_epoch = 0;       ///< the epoch of that validation, from 1
  std::size_t patient_since = 0;    ///< the validations that stop.patience does not count, as a resumed run began anew
  std::string stopped = {};         ///< why the run ended for good; empty: it did not
  double set_rate = 0;              ///< the rate set by Trainer::set_learning_rate(); 0: the schedule's rate
  std::string data = {};            ///< Progress::data: the settings that determine the order of samples
  std::size_t batch = 0;            ///< samples per step
  std::size_t ranks = 1;            ///< of the run that wrote it
  std::string exchange = {};        ///< Strategy::Traits::name
  bool has_manifest = false;        ///< whether a manifest was written with it
  HistoryMark history = {};         ///< of what it was read with or is written with, without a file its own lists

  /// A copy that has no past. What is copied does not grow with the steps.
  RunState without_past();
  /// The state with the mark of its history, a text of bounded length; without a file in `history`, with all lists.
  std::string json() const;
  /// Throws Error{invalid} with the file's name and the entry that is missing, wrong, or does not go with the others.
  /// What is in a history remains to be read.
  static RunState read(const std::filesystem::path& file);
  /// Reads the past from the folder of the checkpoints, if the state has a history. Throws as read_history() does.
  void read_past(const std::filesystem::path& checkpoints, bool sums);
};

}  // namespace tutti::engine
