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
};

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
