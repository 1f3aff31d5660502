// Algorithm: a named pure function Shape -> Schedule, with its cost. Each is defined in one file of algorithms/.
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "collectives/plan/schedule.hpp"

namespace tutti {

/// Upper bounds over all ranks, for the form without counts per rank. A message takes one round, counted from the
/// start of its sender's round; copies and local folds take none. So `rounds` is the longest chain of dependent
/// messages. It is exact if every block or chunk has an element (count >= size suffices) and all hosts have the same
/// number of ranks; otherwise it may be smaller. `elements` is always exact.
struct Cost {
  int rounds = 0;            ///< until the last rank is done
  std::size_t elements = 0;  ///< sent by one rank
  bool operator==(const Cost&) const = default;
};

/// The exact number of elements sent between hosts. If the links between hosts are the bottleneck, the time is
/// proportional to `most`.
struct Crossing {
  std::size_t total = 0;  ///< sent by all ranks to ranks on other hosts
  std::size_t most = 0;   ///< maximum over the hosts of what its ranks send to other hosts
  bool operator==(const Crossing&) const = default;
};

/// Messages one after another, and the elements in them.
struct Passage {
  double messages = 0, elements = 0;
  bool operator==(const Passage&) const = default;
};

/// What one lane costs, for estimates of its time: approximate where ranks or hosts are no power of two, or unequal.
/// `within` and `between` are messages within a host and between hosts, where there are racks between those of one;
/// `beyond` are those between racks.
struct Expense {
  struct Way {
    Passage within, between;
    double folded = 0;  ///< elements that a rank folds or copies
    Passage beyond = {};
    double uplink =
        0;  ///< elements beyond of all ranks of a rack that send at the same time, since they share its link
    bool operator==(const Way&) const = default;
  };
  /// The longest chain of dependent messages. Elements between hosts are counted for all ranks of a host that send at
  /// the same time, since they share its link; so are those of messages that a rank sends before the one in the chain.
  Way chain;
  /// What keeps the busiest rank, and the busiest host's link, from other lanes: messages and elements within a host
  /// of one rank, messages between hosts of one rank, and elements between hosts of all ranks of a host, each in the
  /// busier direction.
  Way load;
  /// The part of the chain for which one rank is busy with the lane, from its first step until its last; all zero: the
  /// whole chain. A rank plays only some lanes at a time.
  Way stay = {};
};

/// A file algorithms/<kind>_<name>.cpp defines `extern const Algorithm <kind>_<name>`. The catalog, the simulator test
/// and the benchmark find it by that name.
struct Algorithm {
  Kind kind;
  std::string_view name;                 ///< "ring"
  std::string_view idea;                 ///< one line for `tutti info`
  Schedule (*plan)(const Shape&);        ///< the schedule of rank shape.rank
  Cost (*cost)(const Shape&);            ///< the formula in the file's header, for cost_of()
  bool variable = false;                 ///< also plans the v-form
  bool lanes = true;                     ///< no slice crosses a block boundary, so a buffer may be cut into lanes
  bool (*fits)(const Shape&) = nullptr;  ///< null: any shape
  /// For crossing_of(); null: the algorithm does not use the hosts.
  Crossing (*crossing)(const Shape&) = nullptr;
  /// The number of parts into which a block, or the buffer, is divided for its shortest messages; null: 1.
  int (*parts)(const Shape&) = nullptr;
  /// The cost of a lane for estimates (see collectives/model/estimate.hpp); null: nobody chooses it by its cost.
  Expense (*expense)(const Shape&) = nullptr;
  /// The number of ways that lanes may go, at most most_ways: lane i plays the schedule for Shape::way = i modulo it;
  /// null: 1. The cost and the crossing are those of a lane of shape.way.
  int (*ways)(const Shape&) = nullptr;
  /// In every round all hosts do the same, if all have equally many ranks in blocks, and there are no racks.
  bool alike = false;
  /// The expense says what goes beyond racks; false: estimates take all that is between hosts for such, of all hosts at
  /// the same time.
  bool racks = false;
};

/// Two trees for each of eight ranks of a host.
inline constexpr int most_ways = 16;

/// The number of ways that the lanes of a call go.
inline int ways_of(const Algorithm& algorithm, const Shape& shape) {
  return algorithm.ways == nullptr ? 1 : algorithm.ways(shape);
}

/// An algorithm's formulas for the form without counts per rank; they ignore shape.rank. One rank alone sends nothing,
/// and on one host nothing crosses, so the formulas are for more.
Cost cost_of(const Algorithm& algorithm, const Shape& shape);
Crossing crossing_of(const Algorithm& algorithm, const Shape& shape);

/// All algorithms.
std::span<const Algorithm* const> catalog() noexcept;

/// The algorithm of this kind and name; null if there is none.
const Algorithm* find_algorithm(Kind kind, std::string_view name) noexcept;

/// The names of the algorithms of a kind.
std::vector<std::string_view> algorithms_of(Kind kind);
/// The same as text: "bruck, linear, ring".
std::string algorithm_names(Kind kind);

}  // namespace tutti
