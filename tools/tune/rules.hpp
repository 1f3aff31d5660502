// The making of rules: which candidate is taken for which sizes, on how many ranks.
#pragma once

#include <string>
#include <vector>

#include "tools/tune/model.hpp"
#include "tools/tune/plan.hpp"

namespace tutti::tune {

/// One file line for each range of each kind: "allreduce: 0..16384 ranks 3..4=ring".
struct Tuned {
  Kind kind;
  int ranks_low, ranks_high;
  bool several_hosts;
  std::vector<Range> ranges;
};
std::string rules_text(const std::vector<Tuned>& all);

/// Measures all that the plan says; rank 0 prints each kind's ranges. Collective; rank 0's result counts.
std::vector<Tuned> make_rules(Communicator& world, const Plan& plan);

}  // namespace tutti::tune
