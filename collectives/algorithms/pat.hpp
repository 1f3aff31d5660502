// Parallel aggregated trees: shared by the allgather and the reduce-scatter along these trees.
#pragma once

#include <bit>
#include <span>

#include "collectives/algorithms/column.hpp"
#include "collectives/algorithms/expenses.hpp"
#include "collectives/algorithms/halving.hpp"
#include "collectives/plan/algorithm.hpp"
#include "collectives/plan/geometry.hpp"

namespace tutti::pieces {

/// One rank's part, for hosts with the same number of ranks. Offset x stands for the block of the host x behind. A
/// block moves from host to host along a binomial tree: with b the lowest set bit of x, offset x comes from the host b
/// behind, where the same block has offset x - b. All hosts do the same, so all blocks with equal offsets move in one
/// round. Offsets are divided into lanes: x = lane * step + low, where `step` is a power of two. All lanes with the
/// same low move in one message. So low > 0 takes step - 1 rounds. low = 0 is collected by doubling, in a number of
/// rounds logarithmic in the lanes. Blocks that are sent on later are stored in slots, one slot for each number of
/// trailing zero bits of low. Plain data.
class AggregatedTrees {
 public:
  /// The most elements of a message, unless a few blocks (four at most) have more.
  static constexpr std::size_t most = 16 << 10;
  static constexpr int radix = 4;

  explicit AggregatedTrees(const Shape& s)
      : columns_(s, nullptr), count_(s.count), step_(step_for(columns_.hosts().count(), s.count)) {}

  const Hosts& hosts() const noexcept { return columns_.hosts(); }
  Ring inside() const noexcept { return columns_.inside(); }
  int step() const noexcept { return step_; }
  /// The number of offsets with this low part.
  int lanes(int low) const noexcept { return (hosts().count() - low - 1) / step_ + 1; }
  /// The place in scratch of lanes first, ..., first + n - 1 of `low`.
  Slice slot(int low, int first, int n) const noexcept {
    return scratch({times(slot_of(low) * lanes(0) + first, count_), times(n, count_)});
  }
  Slice slot(int low) const noexcept { return slot(low, 0, lanes(low)); }
  /// Area `number` of scratch, after the slots. An area stores the blocks of one low part.
  Slice area(int number, int low) const noexcept {
    return scratch({times((slots() + number) * lanes(0), count_), times(lanes(low), count_)});
  }
  std::size_t scratch_elements(int areas) const noexcept { return times((slots() + areas) * lanes(0), count_); }

  /// The rank of this column on the host that is `offset` hosts behind, or ahead.
  int behind(int offset) const noexcept { return rank_of(columns_.host() - offset, columns_.index()); }
  int ahead(int offset) const noexcept { return rank_of(columns_.host() + offset, columns_.index()); }
  /// A rank of this host.
  int member(int index) const noexcept { return rank_of(columns_.host(), index); }

  /// Calls each(some, spread) for every group of lanes of `low` of a column whose blocks are at equal distances in
  /// `memory`. `some` is their part of `packed`, which has all these lanes; `spread` are their places in `memory`.
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

  /// The lanes of low 0 as arguments of the templates in halving.hpp: Peers for `peer`, Lanes for `at`.
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

  /// The smallest step for which messages have at most `most` elements; but there are at least two lanes.
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
  /// The expense without copies. While blocks cross hosts, those received before are exchanged inside hosts.
  static Expense expense(const Shape& s) {
    using namespace expenses;
    const Hosts& hosts = hosts_of(s);
    const double h = hosts.count(), others = hosts.largest() - 1, all = s.size * number(s.count);
    const double steps = step_for(hosts.count(), s.count);
    Expense sum = at_once(expenses::inside, others * steps, others * h * number(s.count));
    sum.chain.within.elements = sum.stay.within.elements = sum.load.within.elements / steps;
    const double rounds_between = rounds(s) - (others > 0 ? 1 : 0);
    const double peers = steps > 1 ? 1 : 3;  // with several steps, messages follow one another
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
