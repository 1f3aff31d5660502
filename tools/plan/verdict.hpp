// Verdict: whether a plan is right, checked with as many elements as show it.
#pragma once

#include <string>

#include "tools/plan/row.hpp"

namespace tutti::planning {

struct Verdict {
  enum class Outcome { right, wrong, skipped } outcome = Outcome::skipped;
  std::string text;  ///< with what it was checked, what is wrong, or how to have it checked
};

/// Checks the row, which has been weighed. Without --check, only plans of up to 1,024 ranks and 100,000 messages.
/// Without --whole, with fewer elements and lanes than the call has, where they would take more than 256 MiB.
Verdict verdict_of(const Row& row, const Request& request);

}  // namespace tutti::planning
