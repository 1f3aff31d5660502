// RunState: where a run is, as a checkpoint's state.json has it. The tensors are in files of their own.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "engine/report.hpp"
#include "engine/schedules.hpp"

namespace tutti::engine {

struct RunState {
  std::size_t step = 0;     ///< steps done, over all epochs
  std::size_t further = 0;  ///< steps among them that belonged to others
  std::size_t epoch = 0;    ///< the one that is under way, from 0
  std::string sampler;      ///< Progress::text(): what of the epoch has been seen
  std::string optimizer;
  std::int64_t optimizer_steps = 0;
  ScheduleState schedule = {};
  double epoch_loss = 0;                 ///< summed over the samples of the epoch so far
  double epoch_samples = 0;              ///< how many these are
  std::vector<double> losses = {};       ///< of each step
  std::size_t samples = 0;               ///< seen so far by all ranks together, each once in an epoch
  std::vector<EpochResult> epochs = {};  ///< that are done
  std::vector<Validation> validations = {};
  double best = 0;                  ///< the watched metric at its best
  std::size_t best_validation = 0;  ///< the number of that validation, from 1; 0: there is none yet
  std::size_t best_epoch = 0;       ///< in which it was, from 1
  std::string stopped = {};         ///< why the run ended for good; empty: it has not
  double set_rate = 0;              ///< by Trainer::set_learning_rate(); 0: the schedule's
  std::string data = {};            ///< what the order of samples depends on
  std::size_t batch = 0;            ///< samples of a step
  std::size_t ranks = 1;            ///< of the run that wrote it
  std::string exchange = {};        ///< Strategy::Traits::name

  std::string json() const;
  /// Throws Error{invalid} naming the file and what is missing or wrong.
  static RunState read(const std::filesystem::path& file);
};

}  // namespace tutti::engine
