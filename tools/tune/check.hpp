// The check of rules: what they choose against every other single choice.
#pragma once

#include <limits>
#include <string>

#include "tools/tune/plan.hpp"

namespace tutti::tune {

/// One size: the time of what the rules choose, and of the best of all other choices.
struct Compared {
  std::string chosen, other;
  double ours = 0;
  double best = std::numeric_limits<double>::infinity();  ///< infinite: there is no other, or all are far behind
  double first = 0;                                       ///< the ratio at the first try, where there were two; else 0
  double ratio() const { return best / ours; }
};

/// All sizes together.
class Verdict {
 public:
  static constexpr double enough = 0.9;  ///< of the best other choice's speed

  void add(const Compared& one);
  bool good() const { return below_ == 0; }
  /// "least ratio ...: 0.95, of 80 sizes, 3 measured twice", and what to do where it is not enough.
  std::string text() const;

 private:
  double least_ = std::numeric_limits<double>::infinity();
  int sizes_ = 0, twice_ = 0, below_ = 0;
};

/// Measures every size; rank 0 prints each and the verdict. Returns the exit code: 1 on rank 0 where the rules are not
/// good enough. Collective.
int check(Communicator& world, const Plan& plan);

}  // namespace tutti::tune
