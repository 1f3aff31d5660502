// Numbers: all that `tutti plan` knows, as JSON.
#pragma once

#include <span>
#include <string>

#include "tools/plan/row.hpp"
#include "tools/plan/sweep.hpp"
#include "tools/plan/verdict.hpp"

namespace tutti::planning {

/// Times in seconds, sizes in bytes. What is not known is null. Verdicts are those of the rows; none: not checked.
std::string numbers(const Request& request, std::span<const Row> rows, std::span<const Verdict> verdicts);
std::string numbers(const Request& request, const Sweep& sweep);

}  // namespace tutti::planning
