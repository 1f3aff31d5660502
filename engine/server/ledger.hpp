// Ledger: records which training steps the masters' parameters contain, and deals the steps of dead workers to others.
//
// Each worker has its own share of each epoch's samples, counted in steps. If a worker dies or falls silent, the ledger
// deals the steps that it has not pushed to other workers: one at a time, when a worker reaches the end of its own
// epoch. So the epoch still covers all samples.
//
// If workers may join during training, each worker claims its own steps, a few at a time, before it begins them. The
// ledger may deal unclaimed steps to a worker that has no own steps left.
#pragma once

#include <algorithm>
#include <compare>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "tutti/rule.hpp"

namespace tutti::engine {

/// One step of a worker's share: `number` counts over all epochs, from 0.
struct DealtStep {
  int worker = -1;
  std::int64_t number = 0;
};

/// The ledger of a run; the first master keeps it. Used by the server's thread, and after training by the thread that
/// reports. Does not communicate, and does not use LibTorch.
class Ledger {
 public:
  /// The share of one worker in the whole run.
  struct Share {
    std::int64_t steps = 0, steps_per_epoch = 1;
  };
  struct Deal {
    enum class What : std::uint8_t {
      none,  ///< no step is left
      take,  ///< do `step`
      wait   ///< no step now; ask again: steps of a worker that is still busy become free if it dies
    } what = What::none;
    DealtStep step = {};
  };
  /// The state of a worker, or how it ended.
  struct Fate {
    bool has_come = true, is_there = true;
    Parting parting = Parting::left;
    std::int64_t share = 0;    ///< steps of its share
    std::int64_t own = 0;      ///< steps of its share that it pushed itself
    std::int64_t missing = 0;  ///< steps of its share that are free: no other worker has taken them
    std::int64_t taken = 0;    ///< steps of others that it took; if it died, only those that it also pushed
  };

  struct Rounds {
    std::int64_t all = 0;    ///< rounds that have closed
    std::int64_t small = 0;  ///< rounds with pushes of fewer than half of the workers
  };

  /// `claims`: workers call claim() before they begin their steps.
  explicit Ledger(std::vector<Share> shares, bool claims = false);

  /// Records that `steps` further steps of this worker have been applied.
  void pushed(int worker, std::uint64_t steps);
  /// Records a round with the pushes of `participants` workers.
  void round(std::size_t participants);
  /// Deals a step of another worker, from epoch `epoch` or an earlier one, to a worker that has done its own steps of
  /// `epoch`, and `done` steps in all. `is_last`: the worker has no own steps left, so the step may be of any epoch.
  Deal ask(int worker, std::int64_t done, std::int64_t epoch, bool is_last);
  /// Claims up to `count` of the worker's own steps from number `from` on, within one epoch. Returns the end of the
  /// claimed steps. The end is `from` if the rest of the epoch has been dealt to others.
  std::int64_t claim(int worker, std::int64_t from, std::int64_t count);
  /// Ends training early: from now on ask() returns Deal::What::none.
  void stop() noexcept { is_stopped_ = true; }
  /// Registers a worker as one that has joined, if it is unknown. Such a worker has no share of its own.
  void comes(int worker);
  /// Records that a worker is gone. If it left, its share counts as done. If it died, the steps that it has not pushed
  /// become free: those of its share and those that it took. `waiting` is the number of steps that it has pushed to a
  /// round that is still open. They do not become free; pushed() follows when the round closes.
  void gone(int worker, Parting how, std::uint64_t waiting = 0);

  std::size_t workers() const noexcept { return workers_.size(); }
  /// The number of workers, without those that joined but died before their first question to the ledger.
  std::size_t workers_seen() const noexcept;
  /// The number of workers at the start of the run.
  std::size_t first_workers() const noexcept { return first_workers_; }
  const Rounds& rounds() const noexcept { return rounds_; }
  Fate fate(int worker) const;
  /// Returns the first worker that has not died, which reports the run; the number of workers if all have died.
  int teller() const;
  /// Returns the number of the first step of its own share that a worker has not pushed; a worker pushes them in order.
  std::int64_t own_pushed(int worker) const;

  /// By worker: the number of steps that it has pushed to rounds that are still open.
  using Waiting = std::map<int, std::int64_t>;
  /// Dump and restore the ledger. Pushes to open rounds are part of the dump and are applied after load(), so their
  /// steps count as done. After load() all initial workers are present. Each continues its share at own_pushed() and
  /// counts its steps from 0. A worker that was gone when the dump was made begins at the first epoch from which on no
  /// step has been taken. load() throws Error{invalid} if the number of workers or their steps per epoch differ, or if
  /// the total number of steps differs and the dumped run ended inside an epoch of which joined workers did a part.
  std::vector<std::byte> save(const Waiting& waiting = {}) const;
  void load(std::span<const std::byte> saved);

 private:
  struct Unit {  // a step; steps are dealt in the order of these members
    std::int64_t epoch;
    int worker;
    std::int64_t number;
    auto operator<=>(const Unit&) const = default;
  };
  struct Taken {
    std::int64_t at;  // the number of steps that the worker had done before this one
    DealtStep step;
  };
  struct Worker {
    Share share;
    std::int64_t first = 0;  // number of the first own step that it does after load()
    std::int64_t pushed = 0, taken_before = 0;
    std::vector<Taken> taken;
    std::map<std::int64_t, std::int64_t> given;  // by epoch: how many of the last steps were dealt to others
    std::int64_t claimed = 0;                    // the own steps before this number are claimed
    std::int64_t restored = 0;                   // steps before `first` in dumped rounds that are still open
    bool has_come = true, is_there = true, is_idle = false;
    Parting parting = Parting::left;

    std::int64_t per_epoch() const noexcept { return std::max<std::int64_t>(1, share.steps_per_epoch); }
    /// The end of its own steps in the epoch that contains step `number`.
    std::int64_t end_of_epoch(std::int64_t number) const;
    /// Returns true if free_unclaimed() has taken step `number` from this worker, so that others may do it.
    bool has_given(std::int64_t number) const { return number >= end_of_epoch(number); }
    std::int64_t given_before(std::int64_t number) const;
    /// The number of steps since load() that are applied or in open rounds; `waiting` steps are in open rounds.
    std::int64_t pushed_or_waiting(std::int64_t waiting) const;
    /// Returns the number, in its share, of the own step that is number `count` since load(), counted from 0.
    std::int64_t own_number(std::int64_t count) const;
  };

  Worker& of(int worker) { return workers_.at(static_cast<std::size_t>(worker)); }
  const Worker& of(int worker) const { return workers_.at(static_cast<std::size_t>(worker)); }
  Unit unit(const DealtStep& step) const;
  DealtStep nth(int worker, std::int64_t number) const;
  std::int64_t own_before(int worker, std::int64_t number) const;
  std::int64_t first_untouched(int worker) const;
  void admit(int worker);
  void free_unclaimed(int worker);

  const bool claims_;
  const std::size_t first_workers_;
  std::vector<Worker> workers_;
  std::set<Unit> free_;
  Rounds rounds_;
  bool is_stopped_ = false;
};

/// Maps PushMeta::worker to the worker's number in the ledger.
struct WorkerRanks {
  std::vector<int> ranks;  ///< PushMeta::worker of each worker at the start of the run
  int first_joined = 0;    ///< PushMeta::worker of the first worker that joins; those of later workers count up from it
  int worker_of(int rank) const;
};

/// Wraps a server's rule so that `ledger` counts the pushes that the rule applies, and becomes part of dumps.
ServerRule with_ledger(ServerRule rule, std::shared_ptr<Ledger> ledger, WorkerRanks ranks);

/// What a worker asks the ledger. Question and answer are f64 numbers; the answer is {what, worker, number}.
enum class LedgerQuestion : std::uint8_t {
  further,  ///< {further, done, epoch, is_last}: the answer is the result of Ledger::ask()
  place,    ///< {place}: the answer's worker is teller(), its number is own_pushed()
  claim,    ///< {claim, from, count}: the answer's number is the result of claim()
  stop      ///< {stop}: calls stop()
};
/// The size of a question, and of the buffer "ledger", which only the first server has and whose values are unused.
inline constexpr std::size_t question_size = 4;
/// The rule that answers questions to the ledger.
ServerRule deal_rule(std::shared_ptr<Ledger> ledger, WorkerRanks ranks);

}  // namespace tutti::engine
