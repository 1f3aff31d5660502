// Simulator: plays the schedules of all ranks of one collective in one thread, and reports what is wrong with them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "collectives/plan/algorithm.hpp"
#include "collectives/plan/geometry.hpp"
#include "tutti/topology.hpp"

namespace tutti::testing {

using Plan = std::function<Schedule(const Shape&)>;

/// One collective with the arguments of all its ranks (64 at most).
struct Trial {
  Kind kind = Kind::barrier;
  int size = 1;
  std::size_t count = 0;
  int root = 0;
  int way = 0;                               ///< the path (Shape::way) of the lane that is played
  std::uint64_t in_place = 0;                ///< bit r: rank r calls in place
  bool lanes = false;                        ///< slices may not cross the blocks of `in` and `out`
  std::vector<int> host = {};                ///< the host of each rank; empty: all on one host
  std::vector<std::vector<int>> above = {};  ///< the rack of each rank, then its pod, and so on, as in Hosts
  /// The counts of each rank in the v-form: [rank][block].
  std::vector<std::vector<std::size_t>> in_counts = {}, out_counts = {};
};

struct Outcome {
  std::string defect;  ///< the first defect found; empty if there is none
  Cost cost;           ///< cost of the simulated call
  Crossing crossing;   ///< elements that crossed hosts in the simulated call
  std::size_t messages = 0, crossing_messages = 0;
  Crossing racks;  ///< elements that crossed the racks of Trial::above
  std::size_t rack_messages = 0;
};

/// The shape with which each rank of a trial plans. Shapes refer to tables in this object.
class Shapes {
 public:
  explicit Shapes(const Trial& trial);
  const Shape& operator[](int rank) const { return shapes_[static_cast<std::size_t>(rank)]; }

 private:
  Hosts hosts_;
  std::vector<BlockTable> in_, out_;
  std::vector<Shape> shapes_;
};

/// Plays `plan` for every rank. A send completes when its recv is posted, so a plan that relies on buffered messages
/// deadlocks. Elements are expressions and folds are not commutative, so "equal" means equal bits for
/// any type and operator. Checks:
///  - the result, its completeness (Step::last exactly once, at the last fold), equal expressions on all ranks;
///  - that there is no deadlock, that all messages are sent and received, and that both ends have equal counts;
///  - that slices are inside their memory, have equal counts within a step, and are inside one block if `lanes` is set;
///  - that no step of a round writes what another reads or writes; a step's result is an operand or apart from it;
///  - that `in` is unchanged, except where it is `out`.
Outcome simulate(const Trial& trial, const Plan& plan);

}  // namespace tutti::testing
