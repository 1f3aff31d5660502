// Ledger: records which training steps the masters' parameters contain, and deals the steps of dead workers to others.
//
// Where workers may join while training runs, each one claims its own steps some at a time, before it begins them. What
// nobody has claimed yet can then be given to a worker that has nothing of its own to do.
//
// Each worker has its own share of each epoch's samples, counted in steps. The steps that a dead or silent worker has
// not pushed are dealt to the other workers, one at a time, when they reach the end of their own epoch. So each sample
// is trained once in an epoch, whoever dies.
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

#include "collectives/parameter_server/rule.hpp"

namespace tutti::engine {

/// One step of a worker's share: `number` counts over all epochs, from 0.
struct DealtStep {
  int worker = -1;
  std::int64_t number = 0;
};

/// Kept by the first master. Called by its server's thread, and after training by the thread that reports. It sends no
/// messages and does not use LibTorch.
class Ledger {
 public:
  /// The share of one worker in the whole run.
  struct Share {
    std::int64_t steps = 0, steps_per_epoch = 1;
  };
  struct Deal {
    enum class What : std::uint8_t {
      none,  ///< there is nothing to take
      take,  ///< `step`
      wait   ///< nothing yet: another worker is still at its share, and might die
    } what = What::none;
    DealtStep step = {};
  };
  /// What became of a worker.
  struct Fate {
    bool has_come = true, is_there = true;
    Parting parting = Parting::left;
    std::int64_t share = 0;    ///< steps
    std::int64_t own = 0;      ///< of these it has pushed itself
    std::int64_t missing = 0;  ///< steps of its share that nobody has taken
    std::int64_t taken = 0;    ///< steps of others that it has taken; of one that has died, and pushed
  };

  struct Rounds {
    std::int64_t all = 0;
    std::int64_t small = 0;  ///< in which fewer than half of the workers took part
  };

  /// `claims`: workers claim their steps.
  explicit Ledger(std::vector<Share> shares, bool claims = false);

  /// `steps` further steps of this worker have been applied.
  void pushed(int worker, std::uint64_t steps);
  /// A round has closed in which `participants` workers took part.
  void round(std::size_t participants);
  /// A worker has done the steps of its share in `epoch`, and `done` steps in all, and asks for more of the same epoch;
  /// `is_last`: or of any, as it has none of its own left.
  Deal ask(int worker, std::int64_t done, std::int64_t epoch, bool is_last);
  /// A worker is about to begin its own steps from number `from` on, at most `count` of them. Returns where those end
  /// that it may do: `from` where the rest of the epoch's has been given to others.
  std::int64_t claim(int worker, std::int64_t from, std::int64_t count);
  /// Training ends before its time: ask() has nothing for anybody any more.
  void stop() noexcept { is_stopped_ = true; }
  /// A worker is there: one that has joined, if it was not known. It has no share of its own.
  void comes(int worker);
  /// A worker that has left counts as having done its share. Steps that a dead worker took and did not push are dealt
  /// again.
  void gone(int worker, Parting how);

  std::size_t workers() const noexcept { return workers_.size(); }
  /// Without those that joined and died before they asked for anything.
  std::size_t workers_seen() const noexcept;
  /// Those that the run began with.
  std::size_t first_workers() const noexcept { return first_workers_; }
  const Rounds& rounds() const noexcept { return rounds_; }
  Fate fate(int worker) const;
  /// The first worker that has not died, which reports the run; the number of workers if all have died.
  int teller() const;
  /// The number of the next step of its own share that a worker has not pushed; it pushes them in order.
  std::int64_t own_pushed(int worker) const;

  /// For dumps: load() takes what save() gave, and has all workers there again; each goes on with its share at
  /// own_pushed(), counts its steps anew, and one that had gone begins with the first epoch of which nobody has taken
  /// anything. Throws Error{invalid} for another number of workers or other shares.
  std::vector<std::byte> save() const;
  void load(std::span<const std::byte> saved);

 private:
  struct Unit {  // in the order in which they are dealt out
    std::int64_t epoch;
    int worker;
    std::int64_t number;
    auto operator<=>(const Unit&) const = default;
  };
  struct Taken {
    std::int64_t at;  // the worker's steps before it
    DealtStep step;
  };
  struct Worker {
    Share share;
    std::int64_t first = 0;  // steps of its share from before a dump that was loaded
    std::int64_t pushed = 0, taken_before = 0;
    std::vector<Taken> taken;
    std::map<std::int64_t, std::int64_t> given;  // by epoch: how many of its last steps others do
    std::int64_t claimed = 0;                    // its steps before this one are its own for good
    bool has_come = true, is_there = true, is_idle = false;
    Parting parting = Parting::left;

    std::int64_t per_epoch() const noexcept { return std::max<std::int64_t>(1, share.steps_per_epoch); }
    /// Where its own steps of the epoch end in which step `number` is.
    std::int64_t end_of_epoch(std::int64_t number) const;
    /// Whether others do its step `number`.
    bool has_given(std::int64_t number) const { return number >= end_of_epoch(number); }
    std::int64_t given_before(std::int64_t number) const;
    /// The number of the step that has `count` of its own before it, since a dump was loaded.
    std::int64_t own_number(std::int64_t count) const;
  };

  Worker& of(int worker) { return workers_.at(static_cast<std::size_t>(worker)); }
  const Worker& of(int worker) const { return workers_.at(static_cast<std::size_t>(worker)); }
  Unit unit(const DealtStep& step) const;
  DealtStep nth(int worker, std::int64_t number) const;
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

/// Which worker a rank pushes for.
struct WorkerRanks {
  std::vector<int> ranks;  ///< of the workers that the run began with
  int first_joined = 0;    ///< the parameter server's number of the first worker that joins later; the next ones follow
  int worker_of(int rank) const;
};

/// Wraps a server's rule so that `ledger` counts what it applies and is part of its dumps.
ServerRule with_ledger(ServerRule rule, std::shared_ptr<Ledger> ledger, WorkerRanks ranks);

/// What a worker asks the ledger, as numbers of type f64; the answer is {what, worker, number}.
enum class LedgerQuestion : std::uint8_t {
  further,  ///< {further, done, epoch, is_last}: ask(), and its answer
  place,    ///< {place}: number is its own_pushed(), worker who tells of the run
  claim,    ///< {claim, from, count}: number is the answer of claim()
  stop      ///< {stop}: stop()
};
/// Values: as many f64 as a question, all at the first server, and unused.
inline constexpr std::size_t question_size = 4;
ServerRule deal_rule(std::shared_ptr<Ledger> ledger, WorkerRanks ranks);

}  // namespace tutti::engine
