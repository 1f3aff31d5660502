// RunState: the state of a run, which a checkpoint keeps in state.json. Tensors are in separate files, and lists that
// grow with the run are in the history.
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
  std::size_t further = 0;  ///< number of extra steps among them (Task::further)
  std::size_t given = 0;    ///< the trainer's own steps that were left to other trainers (Task::may_begin)
  std::size_t epoch = 0;    ///< the current epoch, from 0
  std::string sampler;      ///< Progress::text(): the samples of the epoch that have been seen
  std::string optimizer;
  std::int64_t optimizer_steps = 0;
  ScheduleState schedule = {};
  double epoch_loss = 0;            ///< sum over the samples of the epoch so far
  double epoch_samples = 0;         ///< number of these samples
  std::size_t step_samples = 0;     ///< samples in the last step
  std::size_t samples = 0;          ///< samples seen by all ranks together; padding is not counted
  double best = 0;                  ///< the best value of the watched metric
  std::size_t best_validation = 0;  ///< number of that validation, from 1; 0: none yet
  std::size_t best_epoch = 0;       ///< the epoch of that validation, from 1
  std::size_t patient_since = 0;    ///< stop.patience ignores validations up to this number
  std::string stopped = {};         ///< why the run ended for good; empty if it did not
  double set_rate = 0;              ///< the rate set by Trainer::set_learning_rate(); 0: the schedule's rate
  std::string data = {};            ///< Progress::data: the settings that determine the order of samples
  std::size_t batch = 0;            ///< samples per step
  std::size_t ranks = 1;            ///< number of ranks of the run that wrote it
  std::string exchange = {};        ///< Strategy::Traits::name
  bool has_manifest = false;        ///< true if a manifest was written with it
  HistoryMark history = {};         ///< where the lists of RunPast are; without a file: in state.json

  /// A copy without the lists of RunPast, so that the cost of copying does not grow with the steps.
  RunState without_past();
  /// The text of state.json. It has bounded length and the mark of the history if `history` has a file, else all lists.
  std::string json() const;
  /// Reads state.json, but not the history. Throws Error{invalid} with the file's name and the entry that is missing,
  /// wrong, or contradicts others.
  static RunState read(const std::filesystem::path& file);
  /// The same for the text of a state.json; `name` is for errors.
  static RunState parse(const std::string& text, const std::string& name);
  /// Reads the past from the folder of the checkpoints, if the state has a history. Throws as read_history() does.
  void read_past(const std::filesystem::path& checkpoints, bool sums);
};

}  // namespace tutti::engine
