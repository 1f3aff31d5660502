// Schedule: what one rank does in a collective: rounds of steps on slices. A round's steps are made when it is played.
#pragma once

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <new>
#include <span>
#include <string>
#include <type_traits>
#include <vector>

#include "collectives/plan/members.hpp"
#include "collectives/plan/small.hpp"
#include "collectives/plan/step.hpp"

namespace tutti {

class BlockTable;
class Hosts;
class Schedule;

/// Everything that a plan may depend on. `count` is a number of elements: of the whole buffer for allreduce, reduce and
/// broadcast, of one rank's block for the other kinds. For the v-forms, `in_blocks` and `out_blocks` describe the
/// blocks instead. A schedule keeps pointers to these tables and to the hosts, which must outlive it.
struct Shape {
  int rank = 0;
  int size = 1;
  std::size_t count = 0;
  int root = 0;
  int way = 0;                             ///< number of the schedule to plan, if lanes use several: Algorithm::ways
  const BlockTable* in_blocks = nullptr;   ///< the blocks of `in`, v-forms only (see geometry.hpp)
  const BlockTable* out_blocks = nullptr;  ///< the blocks of `out`, v-forms only
  const Hosts* hosts = nullptr;            ///< the hosts of the ranks; null: one host
};

/// Receives the steps of one round from the function that makes them. Applies the schedule's changes (Schedule::on(),
/// in_place(), partial()), drops steps that do nothing, and passes the others to the caller of Schedule::play().
class Round {
 public:
  /// Appends steps to the round, in this order.
  template <typename... Steps>
  void add(const Steps&... steps) {
    (hand_on(steps), ...);
  }

 private:
  friend class Schedule;
  using Take = void (*)(void* taker, const Step& step);
  Round(const Schedule& plan, int changes, Take take, void* taker) noexcept
      : plan_(plan), changes_(changes), take_(take), taker_(taker) {}
  void hand_on(const Step& step) {
    if (changes_ >= 0)
      hand_on_changed(step);
    else if (!does_nothing(step))
      take_(taker_, step);
  }
  void hand_on_changed(Step step);

  const Schedule& plan_;
  const int changes_;
  const Take take_;
  void* const taker_;
};

/// Rounds run in order, and the steps of a round run concurrently: no step may write what another step of the same
/// round reads or writes. Messages between two ranks match in the order of the steps. In a call in place, `in` and
/// `out` overlap as described in Collective. A plan must be correct in place and out of place, and must not write to
/// the part of `in` outside `out`. In an alltoall in place, the plan gets a copy as `in`. A copy onto itself is free.
///
/// A schedule stores phases, not steps. A phase is a number of rounds and a function that makes the steps of any of
/// these rounds. So a schedule takes about 1.4 KiB for any number of ranks, its first step is available at once, and
/// its rounds can be made repeatedly, in any order. A value; copies are independent.
class Schedule {
 public:
  /// Appends `count` rounds: make(k, round) adds the steps of the k-th of them to `round`. A copy of `make` is kept and
  /// called whenever one of these rounds is played. It must be plain data: a lambda that captures numbers, and pointers
  /// to tables that outlive the schedule. Steps of zero elements are dropped. A round without steps takes no time.
  template <typename Make>
  void rounds(int count, const Make& make);

  /// Appends a round; make(round) adds its steps.
  template <std::invocable<Round&> Make>
  void round(const Make& make) {
    rounds(1, [make](int, Round& round) { make(round); });
  }
  /// Appends a round of these steps. The schedule stores a copy of them.
  void round(std::span<const Step> steps);
  void round(std::initializer_list<Step> steps) { round(std::span(steps.begin(), steps.size())); }

  /// Appends the rounds of `next`. Both use the same scratch, so `next` may overwrite what this schedule left there.
  Schedule& then(const Schedule& next);

  /// The same plan for some ranks of a group: peer i becomes members[i], and all offsets in `in` and `out` increase by
  /// `base` elements.
  Schedule on(const Members& members, std::size_t base = 0) const& { return Schedule(*this).on(members, base); }
  Schedule&& on(const Members& members, std::size_t base = 0) &&;

  /// The same plan with `in` replaced by `out`: for a phase that continues with the result of an earlier one.
  Schedule in_place() const& { return Schedule(*this).in_place(); }
  Schedule&& in_place() &&;

  /// The same plan without Step::last: for a phase whose results are folded further by a later one.
  Schedule partial() const& { return Schedule(*this).partial(); }
  Schedule&& partial() &&;

  void use_scratch(std::size_t elements) { scratch_ = scratch_ < elements ? elements : scratch_; }
  std::size_t scratch() const noexcept { return scratch_; }  ///< elements

  /// The number of rounds, including those that have no steps on this rank.
  int rounds() const noexcept { return rounds_; }

  /// Makes the steps of round `number`, from 0 to rounds() - 1. Calls take(step) for each step in order, as soon as the
  /// step is made.
  template <typename Take>
  void play(int number, Take&& take) const {
    using Taker = std::remove_reference_t<Take>;
    play_round(
        number, [](void* taker, const Step& step) { (*static_cast<Taker*>(taker))(step); },
        const_cast<void*>(static_cast<const void*>(&take)));
  }

  /// Bytes of the schedule: sizeof(Schedule) and its memory on the heap.
  std::size_t bytes() const noexcept;

 private:
  friend class Round;
  using MakeRound = void (*)(const void* made_by, int k, Round& round);
  struct Phase {
    MakeRound make;
    int rounds;
    std::uint32_t at;  // index in room_ where the data of `make` begin
    int changes;       // index in changes_ of the change that is applied last; -1: none
  };
  struct Change {
    Members members;
    std::size_t base;
    bool relabels, in_place, partial;
    int inner;  // the change that is applied before this one; -1: none
    void join(const Change& more) noexcept;
  };
  struct alignas(8) Cell {
    std::byte bytes[8];
  };

  Cell* add_phase(int rounds, MakeRound make, std::size_t bytes);
  Schedule& change_all(const Change& more);
  void change(Step& step, int changes) const;
  void play_round(int number, Round::Take take, void* taker) const;

  Small<Phase, 8> phases_;
  Small<Change, 6> changes_;
  Small<Cell, 112> room_;  // the data of the phases' functions
  std::size_t scratch_ = 0;
  int rounds_ = 0;
};

template <typename Make>
void Schedule::rounds(int count, const Make& make) {
  static_assert(std::is_trivially_copyable_v<Make> && alignof(Make) <= alignof(Cell),
                "a phase captures plain data: numbers, and pointers to tables that outlive the schedule");
  if (count <= 0) return;
  const MakeRound call = [](const void* data, int k, Round& round) { (*static_cast<const Make*>(data))(k, round); };
  ::new (static_cast<void*>(add_phase(count, call, sizeof(Make)))) Make(make);
}

/// All steps of a schedule, for tools and tests. Rounds without steps are left out. Memory is proportional to the
/// number of steps.
using Rounds = std::vector<std::vector<Step>>;
Rounds all_rounds(const Schedule& schedule);

/// Counts of what a rank does in all rounds together. tally() does not store the steps.
struct Tally {
  std::size_t rounds = 0;    ///< with at least one step
  std::size_t steps = 0;     ///< of any kind
  std::size_t messages = 0;  ///< sent
  std::size_t elements = 0;  ///< sent
  bool operator==(const Tally&) const = default;
};
Tally tally(const Schedule& schedule);

/// One line per round: "0: send 1 out[0,4) | recv_reduce 3 out[4,8)". For logs and tests.
std::string to_string(const Schedule& schedule);

}  // namespace tutti
