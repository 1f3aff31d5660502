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
/// number of ranks; otherwise a call may take fewer rounds. `elements` is always exact.
struct Cost {
  int rounds = 0;            ///< the number of rounds until the last rank is done
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

/// A number of messages that follow one another, and the elements of all of them.
struct Passage {
  double messages = 0, elements = 0;
  bool operator==(const Passage&) const = default;
};

/// The cost of one lane (an independent part of the buffer), for estimates of its time. Approximate if the number of
/// ranks or hosts is no power of two, or if hosts have different numbers of ranks. `within` are messages within a host,
/// `between` messages between hosts of the same rack (between any hosts if there are no racks), `beyond` messages
/// between racks.
struct Expense {
  struct Way {
    Passage within, between;
    double folded = 0;  ///< elements that a rank folds or copies
    Passage beyond = {};
    double uplink =
        0;  ///< elements sent to other racks by all ranks of a rack that send at the same time: they share its link
    bool operator==(const Way&) const = default;
  };
  /// The longest chain of dependent messages. Elements between hosts are those of all ranks of a host that send at the
  /// same time, because they share the host's link. They include what a rank sends before its message of the chain.
  Way chain;
  /// What occupies the busiest rank and the busiest host's link, so that other lanes cannot use them. Messages, and
  /// elements within a host, are those of one rank. Elements between hosts are those of all ranks of a host. Each
  /// number is that of the busier direction.
  Way load;
  /// The part of the chain from the first step of a rank to the last step of the same rank; all zero: the whole chain.
  /// Estimates need it because a rank plays only a few lanes at a time.
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
  bool (*fits)(const Shape&) = nullptr;  ///< true if it supports the shape; null: it supports any shape
  /// The formula for crossing_of(); null: the algorithm does not use the hosts.
  Crossing (*crossing)(const Shape&) = nullptr;
  /// The number of parts into which a block, or the buffer, is divided for its shortest messages; null: 1.
  int (*parts)(const Shape&) = nullptr;
  /// The cost of a lane for estimates (see collectives/model/estimate.hpp); null: it is never chosen by its cost.
  Expense (*expense)(const Shape&) = nullptr;
  /// The number of different schedules ("ways") for the lanes of a call, at most most_ways; null: 1. Lane i plays the
  /// schedule for Shape::way = i modulo this number. `cost` and `crossing` are those of a lane with way shape.way.
  int (*ways)(const Shape&) = nullptr;
  /// True: in every round all hosts do the same, if all have the same number of ranks, the ranks of every host follow
  /// one another, and there are no racks.
  bool alike = false;
  /// True: `expense` counts messages between racks apart. False: estimates treat all messages between hosts as messages
  /// between racks, sent by all hosts of a rack at the same time.
  bool racks = false;
};

/// The maximum of Algorithm::ways: two trees for each of eight ranks of a host.
inline constexpr int most_ways = 16;

/// The value of Algorithm::ways for this shape; 1 if it is null.
inline int ways_of(const Algorithm& algorithm, const Shape& shape) {
  return algorithm.ways == nullptr ? 1 : algorithm.ways(shape);
}

/// The values of Algorithm::cost and Algorithm::crossing, for the form without counts per rank; shape.rank is ignored.
/// Cost is zero for one rank, crossing for one host. crossing_of() on several hosts needs Algorithm::crossing.
Cost cost_of(const Algorithm& algorithm, const Shape& shape);
Crossing crossing_of(const Algorithm& algorithm, const Shape& shape);

/// All algorithms.
std::span<const Algorithm* const> catalog() noexcept;

/// The algorithm of this kind and name; null if there is none.
const Algorithm* find_algorithm(Kind kind, std::string_view name) noexcept;

/// The names of the algorithms of a kind.
std::vector<std::string_view> algorithms_of(Kind kind);
/// The names of the algorithms of a kind as text: "bruck, linear, ring".
std::string algorithm_names(Kind kind);

}  // namespace tutti
