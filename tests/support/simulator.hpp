// Simulator: plays the schedules of all ranks of one collective in one thread, and says what is wrong with them.
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

/// One collective as all its ranks (64 at most) call it.
struct Trial {
  Kind kind = Kind::barrier;
  int size = 1;
  std::size_t count = 0;
  int root = 0;
  int way = 0;                               ///< of the lane
  std::uint64_t in_place = 0;                ///< bit r: rank r calls it in place
  bool lanes = false;                        ///< slices may not cross the blocks of `in` and `out`
  std::vector<int> host = {};                ///< of each rank; empty: all on one
  std::vector<std::vector<int>> above = {};  ///< the rack of each rank, then its pod, and so on, as Hosts takes them
  /// The v-form: what each rank passes, [rank][block].
  std::vector<std::vector<std::size_t>> in_counts = {}, out_counts = {};
};

struct Outcome {
  std::string defect;  ///< the first thing that is wrong; empty when nothing is
  Cost cost;           ///< as it was played
  Crossing crossing;   ///< as it was played
  std::size_t messages = 0, crossing_messages = 0;
  Crossing racks;  ///< what crosses those of Trial::above, likewise
  std::size_t rack_messages = 0;
};

/// What the ranks of a trial are planned with. The shapes refer to tables in here.
class Shapes {
 public:
  explicit Shapes(const Trial& trial);
  const Shape& operator[](int rank) const { return shapes_[static_cast<std::size_t>(rank)]; }

 private:
  Hosts hosts_;
  std::vector<BlockTable> in_, out_;
  std::vector<Shape> shapes_;
};

/// Plays `plan` for every rank. A send ends when its recv is there, so a plan that needs buffers on the way
/// is a deadlock. Elements are expressions and folds are not commutative, so "equal" means equal bits for
/// any type and operator. Checked:
///  - the result, its completeness (Step::last exactly once, at the last fold), equal expressions on all ranks;
///  - no deadlock, no message unreceived or never sent, equal counts at both ends;
///  - slices inside their memory, of equal counts within a step, inside one block where lanes ask for it;
///  - no step of a round writes what another reads or writes; a step's result is an operand or apart from it;
///  - `in` untouched wherever it is not `out`.
Outcome simulate(const Trial& trial, const Plan& plan);

}  // namespace tutti::testing
