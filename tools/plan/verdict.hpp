// Verdict: the result of checking that a plan is correct, with as few elements as a check needs.
#pragma once

#include <string>

#include "tools/plan/row.hpp"

namespace tutti::planning {

struct Verdict {
  enum class Outcome { right, wrong, skipped } outcome = Outcome::skipped;
  std::string text;  ///< how it was checked; what is wrong; or how to have it checked
};

/// Checks the row after weigh(). Without --check, only plans of at most 1,024 ranks and 100,000 messages are checked. A
/// call that would need more than 256 MiB is checked with fewer elements and lanes, unless --whole is given.
Verdict verdict_of(const Row& row, const Request& request);

}  // namespace tutti::planning
