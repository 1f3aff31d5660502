// Makes rules: one candidate for each range of sizes and of numbers of ranks.
#pragma once

#include <string>
#include <vector>

#include "tools/tune/model.hpp"
#include "tools/tune/plan.hpp"

namespace tutti::tune {

/// The ranges of one kind of collective on ranks_low to ranks_high ranks.
struct Tuned {
  Kind kind;
  int ranks_low, ranks_high;
  bool several_hosts;
  std::vector<Range> ranges;
};
/// Returns one line for each range, for example "allreduce: 0..16384 ranks 3..4 hosts ..1=ring".
std::string rules_text(const std::vector<Tuned>& all);

/// Measures everything in the plan. Rank 0 prints each kind's ranges. Collective; only rank 0's result is valid.
std::vector<Tuned> make_rules(Communicator& world, const Plan& plan);

}  // namespace tutti::tune
