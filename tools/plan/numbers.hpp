// Numbers: all results of `tutti plan` as JSON.
#pragma once

#include <span>
#include <string>

#include "tools/plan/row.hpp"
#include "tools/plan/sweep.hpp"
#include "tools/plan/verdict.hpp"

namespace tutti::planning {

/// Returns the results as JSON. Times are in seconds, sizes in bytes; unknown values are null. `verdicts` are those of
/// the rows, in the same order; empty if nothing was checked.
std::string numbers(const Request& request, std::span<const Row> rows, std::span<const Verdict> verdicts);
std::string numbers(const Request& request, const Sweep& sweep);

}  // namespace tutti::planning
