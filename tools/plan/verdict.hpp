// Verdict: whether a plan is correct, checked with as few elements as a check needs.
#pragma once

#include <string>

#include "tools/plan/row.hpp"

namespace tutti::planning {

struct Verdict {
  enum class Outcome { right, wrong, skipped } outcome = Outcome::skipped;
  std::string text;  ///< how it was checked; what is wrong; or how to have it checked
};

/// Checks the row, which must have been weighed: without --check, only plans of at most 1,024 ranks and 100,000
/// messages; without --whole, with fewer elements and lanes than the call, if it would need more than 256 MiB.
Verdict verdict_of(const Row& row, const Request& request);

}  // namespace tutti::planning
