// Handles requests to the running training, such as to end, after each step; and writes losses as they become known.
#include <algorithm>
#include <utility>

#include "engine/loop/all_or_none.hpp"
#include "engine/loop/elastic.hpp"
#include "engine/loop/run.hpp"

namespace tutti::engine {

/// Called after each step. `exchanges_before`: exchanges that the strategy had finished before the step. Tells all
/// ranks the wishes, and exchanges losses. Ranks act on a wish after a step in which they exchanged, or after the last
/// step of an epoch. After another step, a checkpoint might add an exchange that a run without a wish does not have.
void Trainer::Run::hear(std::size_t epoch, std::size_t exchanges_before, bool ends_epoch) {
  if (hooks.wish) wished = std::max(wished, hooks.wish());
  if (Clock::now() >= ends_at) wished = std::max(wished, Wish::time_is_over);
  const bool exchanges_alone = world.size() == 1 && !(is_elastic() && strategy->traits().changes_alone);
  const bool exchanged = exchanges_alone || strategy->stats().finished > exchanges_before;
  known = std::max(known, agreement.meet(std::exchange(wished, Wish::nothing), exchanged));
  if (exchanged || ends_epoch) asked = std::max(asked, std::exchange(known, Wish::nothing));
  if (asked == Wish::regroup) {
    if (mark.state.step != state.step) commit(epoch, false);  // so that no step is done again
    agreement.end();
    throw Regrouping();
  }
  if (!agreement.heard()) return;
  take_losses();
  losses.start();
}

/// A wish of this rank that its trainer has not carried out.
Wish Trainer::Run::open_wish() const { return std::max({wished, known, asked}); }

/// Ends training after a step, with a checkpoint from which a resumed run continues bitwise as if it had not been
/// interrupted. The resumed run makes the validation and the end of the epoch, if they are due. Collective.
void Trainer::Run::interrupt(std::size_t epoch) {
  times.stop();
  interrupted = true;
  stop_reason = asked == Wish::end ? "it was asked to end" : "max_time has passed";
  if (config.keeps_the_end()) save(epoch, false);
  flush_losses();
  all_written();
}

/// Makes the validation after the last step before a resume, if the interrupted run did not make it. Collective.
void Trainer::Run::validate_if_missed(std::size_t epoch, std::size_t steps) {
  const bool has_done = !state.validations.empty() && state.validations.back().step == state.step;
  if (steps == 0 || steps == loader.steps() || has_done) return;
  if (!validation_is_due(state.step_samples)) return;
  validate(epoch, steps);
  save_if_due(epoch);
  set_training(network, true);
}

/// Writes losses that have become known. Stores an error, which the next call of all_written() throws.
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
