// Algorithm: a named pure function Shape -> Schedule, with its cost. One file each in algorithms/.
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <string_view>

#include "collectives/plan/schedule.hpp"

namespace tutti {

/// What an algorithm costs at most on any rank, of the form without counts per rank. A message takes one round from
/// the moment that its sender's round begins, and copies and local folds take none; so `rounds` is the longest chain of
/// messages that wait for one another. Exact where every block or chunk has an element (count >= size is enough) and
/// all hosts have equally many ranks; perhaps fewer otherwise. `elements` is always exact.
struct Cost {
  std::size_t rounds = 0;    ///< until the last rank is done
  std::size_t elements = 0;  ///< sent by one rank
  bool operator==(const Cost&) const = default;
};

/// What leaves the hosts, in elements, exactly. Where the links between hosts are the narrow place, `most` is what
/// the time follows.
struct Crossing {
  std::size_t total = 0;  ///< sent by all ranks to ranks of other hosts
  std::size_t most = 0;   ///< sent so by the ranks of one host together, at most
  bool operator==(const Crossing&) const = default;
};

/// A file algorithms/<kind>_<name>.cpp defines `const Algorithm catalog_entries::<kind>_<name>`; the
/// catalog, the simulator test and the benchmark pick it up by that name.
struct Algorithm {
  Kind kind;
  std::string_view name;                 ///< "ring"
  std::string_view idea;                 ///< one line for `tutti info`
  Schedule (*plan)(const Shape&);        ///< what shape.rank does
  Cost (*cost)(const Shape&);            ///< the formula of the file's header; shape.rank is not looked at
  bool variable = false;                 ///< also plans the v-form
  bool lanes = true;                     ///< no slice crosses a block, so a buffer may be cut into lanes
  bool (*fits)(const Shape&) = nullptr;  ///< null: any shape
  /// Of the form without counts per rank; shape.rank is not looked at. Null: it takes no heed of hosts.
  Crossing (*crossing)(const Shape&) = nullptr;
};

/// All algorithms (generated from the files in algorithms/).
std::span<const Algorithm* const> catalog() noexcept;

/// By kind and name; null where there is none.
const Algorithm* find_algorithm(Kind kind, std::string_view name) noexcept;

/// "bruck, linear, ring": what there is for a kind.
std::string algorithm_names(Kind kind);

}  // namespace tutti
