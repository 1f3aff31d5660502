// Commits of an elastic run: the points from which the ranks that are left, and those that join, go on.
//
// The parameters change only in the update of a step, which comes after the last exchange of the step. So a failure
// leaves them as they were after some step that is done. Buffers change in forward passes and before a validation, and
// are copied before. What else a step changes is in RunState: a commit copies it without the lists that grow with the
// run, of which it notes the lengths.
//
// With strategies whose ranks change parameters on their own (local SGD, DiLoCo), ranks commit after exchanges, and a
// commit copies all tensors. After a failure each rank goes back to its own copies.
#include <ATen/Functions.h>

#include <algorithm>
#include <utility>

#include "engine/data/sampling.hpp"
#include "engine/loop/run.hpp"

namespace tutti::engine {

/// Notes that the state of now is that of all ranks which get as far as this.
void Trainer::Run::commit(std::size_t epoch, bool epoch_ended) {
  if (!is_elastic()) return;
  std::map<std::string, Fields> own;
  if (strategy->traits().changes_alone) {
    strategy->settle();
    flush_losses();
    own = copies_of_all();
  }
  mark = {.state = state_at(epoch, epoch_ended),
          .losses = state.losses.size(),
          .epochs = state.epochs.size(),
          .validations = state.validations.size(),
          .number = mark.number + 1,
          .tensors = std::move(own)};
  buffers_are_between = false;
}

/// True if a step can be followed by a commit. `exchanges_before`: exchanges that the strategy had finished before it.
bool Trainer::Run::may_commit(std::size_t exchanges_before) const {
  const bool has_exchanged = strategy->stats().finished > exchanges_before;
  return !strategy->traits().changes_alone || (has_exchanged && strategy->ends_round());
}

/// Copies of the tensors that this rank goes on from, by file. Files of the rank have the names that rank 0 has for its
/// own.
std::map<std::string, Fields> Trainer::Run::copies_of_all() const {
  std::map<std::string, Fields> found;
  for (const auto& [file, tensors_of_file] : kept_tensors(0)) found[file] = copies(tensors_of_file);
  return found;
}

/// The first commit of a trainer, before its first step.
void Trainer::Run::commit_start(const Committed* from) {
  if (from != nullptr) mark.number = from->number;
  const std::string sampler = state.sampler;
  commit(state.epoch, false);
  mark.state.sampler = sampler;  // the loader has not begun yet
}

/// Returns the state of the last commit. The run cannot go on afterwards.
Committed Trainer::Run::committed() {
  if (mark.number < 0) return {};
  if (std::exchange(buffers_are_between, false)) restore_buffers();
  RunState kept = mark.state;
  kept.history = {};
  kept.losses.assign(state.losses.begin(), state.losses.begin() + static_cast<std::ptrdiff_t>(mark.losses));
  kept.epochs.assign(state.epochs.begin(), state.epochs.begin() + static_cast<std::ptrdiff_t>(mark.epochs));
  kept.validations.assign(state.validations.begin(),
                          state.validations.begin() + static_cast<std::ptrdiff_t>(mark.validations));
  Committed found{.number = mark.number,
                  .state = std::move(kept),
                  .run = config.run,
                  .batch = config.batch.global,
                  .ranks = world.size(),
                  .undone = state.step - mark.state.step,
                  .is_shared = !strategy->traits().changes_alone};
  found.tensors = found.is_shared ? copies_of_all() : std::move(mark.tensors);
  return found;
}

/// Goes on from the state of a commit.
void Trainer::Run::adopt(const Committed& from) {
  const Source memory{.name = "the state of the other ranks",
                      .has = [&](const std::string& file) { return from.tensors.contains(file); },
                      .arrays = [&](const std::string& file) { return from.tensors.at(file); },
                      .any_batch = true};
  RunState kept = from.state;
  kept.ranks = 1;  // all of it is this rank's
  const std::size_t batch = kept.batch;
  strategy->load_state(take(std::move(kept), memory));
  if (batch != static_cast<std::size_t>(config.batch.global)) count_steps_again();
  if (own_done() > 0) optimizer->set_learning_rate(rate_of(own_done() - 1));  // an epoch may end before the next step
}

/// Sets the number of steps of the whole run after a change of batch.global: those that are done, those of the rest of
/// the epoch, and those of further epochs.
void Trainer::Run::count_steps_again() {
  std::size_t left = (static_cast<std::size_t>(config.epochs) - state.epoch) * loader.steps();
  if (!state.sampler.empty()) {
    Sampler sampler = sampler_for(config, world.rank(), world.size(), *data.train);
    left -= sampler.steps();
    sampler.resume(Progress::parse(state.sampler));
    left += sampler.steps() - sampler.first_step();
  }
  own_steps = own_done() + left;
  if (config.steps > 0) own_steps = std::min(own_steps, static_cast<std::size_t>(config.steps));
}

}  // namespace tutti::engine
