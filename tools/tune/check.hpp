// The check of rules: compares the algorithms that the rules choose with every other candidate.
#pragma once

#include <limits>
#include <string>

#include "tools/tune/plan.hpp"

namespace tutti::tune {

/// The times at one size: of the rules' choice, and of the best other candidate.
struct Compared {
  std::string chosen, other;
  double ours = 0;
  /// infinity: there is no other candidate, or all others are far behind
  double best = std::numeric_limits<double>::infinity();
  double first = 0;  ///< the ratio of the first measurement if there were two; otherwise 0
  double ratio() const { return best / ours; }
};

/// The result over all sizes.
class Verdict {
 public:
  static constexpr double enough = 0.9;  ///< the smallest ratio at which the rules' choice is good enough

  void add(const Compared& one);
  bool good() const { return below_ == 0; }
  /// Returns "least ratio ...: 0.95, of 80 sizes, 3 measured twice", and advice if the rules are not good enough.
  std::string text() const;

 private:
  double least_ = std::numeric_limits<double>::infinity();
  int sizes_ = 0, twice_ = 0, below_ = 0;
};

/// Measures every size. Rank 0 prints each size and the verdict. Returns the exit code: 1 on rank 0 if the rules are
/// not good enough, otherwise 0. Collective.
int check(Communicator& world, const Plan& plan);

}  // namespace tutti::tune
