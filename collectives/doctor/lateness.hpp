// Lateness: which ranks come last to the calls of a job, how often and by how much.
#pragma once

#include <vector>

#include "collectives/doctor/job.hpp"

namespace tutti::doctor {

/// How one rank came to calls that at least two ranks have recorded.
struct Lateness {
  int rank = 0;
  std::size_t last = 0;  ///< calls to which it came last
  std::size_t of = 0;    ///< all calls that it shared with others
  Time median = 0;       ///< of the calls to which it came last: the time after the last but one
  Time total = 0;        ///< the sum of these times
};

/// All ranks, the one with the largest `total` first. The clocks of the ranks are compared, so ranks of several hosts
/// are as comparable as these hosts' clocks.
std::vector<Lateness> latenesses(const Job& job);

}  // namespace tutti::doctor
