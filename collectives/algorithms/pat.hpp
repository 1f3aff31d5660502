// Parallel aggregated trees: what the allgather and the reduce-scatter along them share.
#pragma once

#include <bit>
#include <span>

#include "collectives/algorithms/column.hpp"
#include "collectives/algorithms/expenses.hpp"
#include "collectives/algorithms/halving.hpp"
#include "collectives/plan/algorithm.hpp"
#include "collectives/plan/geometry.hpp"

namespace tutti::pieces {

/// One rank's part, for hosts with equally many ranks. The block of the host x behind has the offset x, and goes from
/// host to host along a binomial tree: offset x comes from the host as far behind as the lowest set bit of x, where it
/// has that bit cleared. The trees of all blocks look alike, so blocks at equal offsets of all hosts move in one round.
/// Offsets are divided into lanes of `step` offsets, a power of two: x = lane * step + low. All lanes with the same low
/// move in one message, so those with low > 0 take step - 1 rounds; those with low = 0 are doubled in the logarithm of
/// their number. An offset that others come from is kept in a slot, of which there is one for each number of low zeros.
/// Plain data.
class AggregatedTrees {
 public:
  /// No message has more elements, unless a block or two have.
  static constexpr std::size_t most = 16 << 10;
  static constexpr int radix = 4;

  explicit AggregatedTrees(const Shape& s)
      : columns_(s, nullptr), count_(s.count), step_(step_for(columns_.hosts().count(), s.count)) {}

  const Hosts& hosts() const noexcept { return columns_.hosts(); }
  Ring inside() const noexcept { return columns_.inside(); }
  int step() const noexcept { return step_; }
  /// How many offsets have this low part.
  int lanes(int low) const noexcept { return (hosts().count() - low - 1) / step_ + 1; }
  /// Where this many lanes of `low` are, from the first-th on.
  Slice slot(int low, int first, int n) const noexcept {
    return scratch({times(slot_of(low) * lanes(0) + first, count_), times(n, count_)});
  }
  Slice slot(int low) const noexcept { return slot(low, 0, lanes(low)); }
  /// Area `number` of scratch behind the slots, each for one low part.
  Slice area(int number, int low) const noexcept {
    return scratch({times((slots() + number) * lanes(0), count_), times(lanes(low), count_)});
  }
  std::size_t scratch_elements(int areas) const noexcept { return times((slots() + areas) * lanes(0), count_); }

  /// The rank of this column on the host that is as many offsets behind, and ahead.
  int behind(int offset) const noexcept { return rank_of(columns_.host() - offset, columns_.index()); }
  int ahead(int offset) const noexcept { return rank_of(columns_.host() + offset, columns_.index()); }
  /// A rank of this host.
  int member(int index) const noexcept { return rank_of(columns_.host(), index); }

  /// Calls each(packed, spread) for the lanes of `low` of a column, whose blocks are packed in one slice: for those at
  /// equal distances in `memory`.
  template <typename Each>
  void each_group(int column, int low, Slice packed, Memory memory, Each each) const {
    const auto rank_at = [&](std::size_t lane) {
      return rank_of(columns_.host() - low - static_cast<int>(lane) * step_, column);
    };
    each_progression(static_cast<std::size_t>(lanes(low)), true, rank_at,
                     [&](std::size_t lane, std::size_t n, std::ptrdiff_t stride) {
                       const Slice some = scratch({packed.offset + lane * count_, n * count_});
                       each(some, columns_.spread(memory, rank_at(lane), some, stride));
                     });
  }

  /// The lanes of low 0 as halving.hpp wants them: their hosts, and where they are.
  struct Peers {
    const Hosts* hosts;
    int host, index, step;
    int operator()(int lanes) const noexcept {
      return (*hosts)[modulo(host - lanes * step, hosts->count())][static_cast<std::size_t>(index)];
    }
  };
  struct Lanes {
    std::size_t begin, count;
    template <typename Each>
    void operator()(int first, int n, Each each) const {
      each(scratch({begin + times(first, count), times(n, count)}));
    }
  };
  Peers peers() const noexcept { return {&hosts(), columns_.host(), columns_.index(), step_}; }
  Lanes lanes_of_zero() const noexcept { return {slot(0).offset, count_}; }

  static int lowest_bit(int low) noexcept { return low & -low; }

  /// The smallest step for which messages are not too long; there are two lanes at least.
  static int step_for(int hosts, std::size_t count) noexcept {
    int step = 1;
    while (step <= hosts / 4 && static_cast<std::size_t>((hosts - 1) / step + 1) * count > most) step *= 2;
    return step;
  }
  static int rounds(const Shape& s) {
    const Hosts& hosts = hosts_of(s);
    const int step = step_for(hosts.count(), s.count);
    return doublings((hosts.count() - 1) / step + 1, radix) + step - 1 + (hosts.largest() > 1 ? 1 : 0);
  }
  static std::size_t elements(const Shape& s) {
    const Hosts& hosts = hosts_of(s);
    return times(s.size - hosts.count() + hosts.count() - 1, s.count);
  }
  static bool in_many_steps(const Shape& s) { return step_for(hosts_of(s).count(), s.count) >= 8; }
  /// While blocks cross, those that came before are exchanged inside. Without copies.
  static Expense expense(const Shape& s) {
    using namespace expenses;
    const Hosts& hosts = hosts_of(s);
    const double h = hosts.count(), others = hosts.largest() - 1, all = s.size * number(s.count);
    const double steps = step_for(hosts.count(), s.count);
    Expense sum = at_once(expenses::inside, others * steps, others * h * number(s.count));
    sum.chain.within.elements = sum.stay.within.elements = sum.load.within.elements / steps;
    const double rounds_between = rounds(s) - (others > 0 ? 1 : 0);
    const double peers = steps > 1 ? 1 : 3;  // where a rank waits for every step, its messages go one by one
    return sum + rounds_of(peers, across(hosts.largest()), rounds_between, all / hosts.largest() * (h - 1) / h);
  }

 private:
  int slots() const noexcept { return log2_floor(step_) + 1; }
  int slot_of(int low) const noexcept {
    return low == 0 ? log2_floor(step_) : std::countr_zero(static_cast<unsigned>(low));
  }
  int rank_of(int host, int index) const noexcept {
    return hosts()[modulo(host, hosts().count())][static_cast<std::size_t>(index)];
  }

  PackedColumns columns_;
  std::size_t count_;
  int step_;
};

}  // namespace tutti::pieces
