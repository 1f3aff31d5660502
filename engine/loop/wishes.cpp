// What a run is asked for while it goes on, and what it writes meanwhile.
#include <algorithm>
#include <utility>

#include "engine/loop/all_or_none.hpp"
#include "engine/loop/run.hpp"

namespace tutti::engine {

/// Called after each step, before which the strategy had finished `exchanges_before` exchanges. Ranks tell each other
/// what they were asked for, and exchange losses. They act after a step in which they exchanged, or the last one of an
/// epoch: elsewhere a checkpoint may be an exchange of its own, which other runs do not have.
void Trainer::Run::hear(std::size_t exchanges_before, bool ends_epoch) {
  if (hooks.wish) wished = std::max(wished, hooks.wish());
  if (Clock::now() >= ends_at) wished = std::max(wished, Wish::time_is_over);
  const bool exchanged = world.size() == 1 || strategy->stats().finished > exchanges_before;
  known = std::max(known, agreement.meet(std::exchange(wished, Wish::nothing), exchanged));
  if (exchanged || ends_epoch) asked = std::max(asked, std::exchange(known, Wish::nothing));
  if (!agreement.heard()) return;
  take_losses();
  losses.start();
}

/// Ends training after a step, with a checkpoint from which a resumed run has the same bits as if it had gone on: the
/// validation and the epoch that may be due are left to it. Collective.
void Trainer::Run::interrupt(std::size_t epoch) {
  times.stop();
  interrupted = true;
  stop_reason = asked == Wish::end ? "it was asked to end" : "max_time has passed";
  if (config.keeps_the_end()) save(epoch, false);
  flush_losses();
  all_written();
}

/// Validates after a resumed step if the run that was interrupted there had left that undone.
void Trainer::Run::validate_if_missed(std::size_t epoch, std::size_t steps) {
  const bool has_done = !state.validations.empty() && state.validations.back().step == state.step;
  if (steps == 0 || steps == loader.steps() || has_done) return;
  if (!validation_is_due(state.step_samples)) return;
  validate(epoch, steps);
  save_if_due(epoch);
  set_training(network, true);
}

/// Called with the losses that have become known. Errors are thrown by the next call of all_written().
void Trainer::Run::write_losses(std::span<const double> fresh) {
  if (fresh.empty() || unwritten) return;
  try {
    if (folder) folder->losses(fresh);
    if (loss_file) loss_file->add(fresh);
  } catch (const Error&) {
    unwritten = std::current_exception();
  }
}

/// Throws on all ranks if losses could not be written. Collective.
void Trainer::Run::all_written() {
  all_or_none(everyone, [&] {
    if (unwritten) std::rethrow_exception(unwritten);
  });
}

}  // namespace tutti::engine
