// Ledger: records which training steps the masters' parameters contain, and deals the steps of dead workers to others.
//
// Each worker has its own share of each epoch's samples, counted in steps. The steps that a dead or silent worker has
// not pushed are dealt to the other workers, one at a time, when they reach the end of their own epoch, so that the
// epoch still covers all samples.
//
// If workers may join during training, each worker claims its own steps, a few at a time, before it begins them. Steps
// that are not claimed can be dealt to a worker that has none of its own left.
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

/// The first master has it. Threads: its server's thread, and after training the thread that reports. Does no
/// communication, and does not use LibTorch.
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
      wait   ///< no step now; ask again, as another worker is still busy and might die
    } what = What::none;
    DealtStep step = {};
  };
  /// What became of a worker.
  struct Fate {
    bool has_come = true, is_there = true;
    Parting parting = Parting::left;
    std::int64_t share = 0;    ///< steps of its share
    std::int64_t own = 0;      ///< steps of its share that it pushed itself
    std::int64_t missing = 0;  ///< steps of its share that nobody has taken
    std::int64_t taken = 0;    ///< steps of others that it took; if it died, only those that it pushed
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
  /// A worker that has done its own steps of `epoch`, and `done` steps in all, asks for a step of another worker from
  /// the same or an earlier epoch. `is_last`: from any epoch, as it has no own steps left.
  Deal ask(int worker, std::int64_t done, std::int64_t epoch, bool is_last);
  /// Claims up to `count` of the worker's own steps from number `from` on, within one epoch. Returns the end of the
  /// claimed steps: `from` if the rest of the epoch has been dealt to others.
  std::int64_t claim(int worker, std::int64_t from, std::int64_t count);
  /// Training ends early: from here on ask() returns Deal::What::none.
  void stop() noexcept { is_stopped_ = true; }
  /// Registers a worker, if it is unknown, as one that has joined. It has no share of its own.
  void comes(int worker);
  /// A worker that has left counts as having done its share. If it died, the steps that it has not pushed are dealt to
  /// others: those of its share and those that it took. `waiting`: the number of steps that it has pushed to a round
  /// that is still open; pushed() follows when the round closes, so they are not dealt.
  void gone(int worker, Parting how, std::uint64_t waiting = 0);

  std::size_t workers() const noexcept { return workers_.size(); }
  /// Without workers that joined but died before their first question to the ledger.
  std::size_t workers_seen() const noexcept;
  /// The number of workers at the start of the run.
  std::size_t first_workers() const noexcept { return first_workers_; }
  const Rounds& rounds() const noexcept { return rounds_; }
  Fate fate(int worker) const;
  /// The first worker that has not died, which reports the run; the number of workers if all have died.
  int teller() const;
  /// The number of the next step of its own share that a worker has not pushed; it pushes them in order.
  std::int64_t own_pushed(int worker) const;

  /// By worker: the number of steps that it has pushed to rounds that are still open.
  using Waiting = std::map<int, std::int64_t>;
  /// For dumps. The pushes that wait are part of the dump and are applied after load(), so that their steps count as
  /// done. After load() all initial workers are present. Each continues its share at own_pushed() and counts its steps
  /// from 0; one that was gone begins at the first epoch of which no step has been taken, nor of later ones. load()
  /// throws Error{invalid} if the number of workers or their shares differ.
  std::vector<std::byte> save(const Waiting& waiting = {}) const;
  void load(std::span<const std::byte> saved);

 private:
  struct Unit {  // a step; the order is that in which steps are dealt
    std::int64_t epoch;
    int worker;
    std::int64_t number;
    auto operator<=>(const Unit&) const = default;
  };
  struct Taken {
    std::int64_t at;  // how many steps the worker had done before it
    DealtStep step;
  };
  struct Worker {
    Share share;
    std::int64_t first = 0;  // number of its first own step after load()
    std::int64_t pushed = 0, taken_before = 0;
    std::vector<Taken> taken;
    std::map<std::int64_t, std::int64_t> given;  // by epoch: how many of its last steps were dealt to others
    std::int64_t claimed = 0;                    // end of the own steps that it has claimed
    std::int64_t restored = 0;                   // steps before `first` that waited in the loaded dump, and still wait
    bool has_come = true, is_there = true, is_idle = false;
    Parting parting = Parting::left;

    std::int64_t per_epoch() const noexcept { return std::max<std::int64_t>(1, share.steps_per_epoch); }
    /// The end of its own steps in the epoch that has step `number`.
    std::int64_t end_of_epoch(std::int64_t number) const;
    /// Returns true if free_unclaimed() has taken step `number` from this worker, for others to do.
    bool has_given(std::int64_t number) const { return number >= end_of_epoch(number); }
    std::int64_t given_before(std::int64_t number) const;
    /// The steps since load() that are pushed, where `waiting` steps wait in rounds.
    std::int64_t pushed_or_waiting(std::int64_t waiting) const;
    /// The number of its own step number `count`, counted from 0 since load().
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
  std::vector<int> ranks;  ///< of the workers at the start of the run
  int first_joined = 0;    ///< PushMeta::worker of the first worker that joins later; the next ones count up from it
  int worker_of(int rank) const;
};

/// Wraps a server's rule so that `ledger` counts the pushes that it applies and is part of dumps.
ServerRule with_ledger(ServerRule rule, std::shared_ptr<Ledger> ledger, WorkerRanks ranks);

/// A worker's question to the ledger, as f64 numbers. The answer is {what, worker, number}.
enum class LedgerQuestion : std::uint8_t {
  further,  ///< {further, done, epoch, is_last}: the answer is that of ask()
  place,    ///< {place}: worker is teller(), number is own_pushed()
  claim,    ///< {claim, from, count}: number is the result of claim()
  stop      ///< {stop}: stop()
};
/// Elements of a question, and of the ledger's buffer, which is at the first server alone and whose values are unused.
inline constexpr std::size_t question_size = 4;
/// The rule that answers questions to the ledger.
ServerRule deal_rule(std::shared_ptr<Ledger> ledger, WorkerRanks ranks);

}  // namespace tutti::engine
