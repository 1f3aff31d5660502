// Tuner: times the candidates for a collective against one another, on some of a job's ranks.
#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <vector>

#include "collectives/tutti.hpp"
#include "tools/bench/board.hpp"
#include "tools/bench/sweep.hpp"

namespace tutti::tune {

/// Collective among its ranks, and alike on all of them.
class Tuner {
 public:
  /// `backends` are made for `ranks` beforehand.
  Tuner(const Communicator& ranks, std::vector<std::string> backends);

  const Communicator& ranks() const noexcept { return ranks_; }

  /// Who may do the collectives of one kind: our algorithms that fit, and those of the backends.
  std::vector<std::string> candidates(Kind kind) const;

  /// The case with blocks of this many bytes of f32 and everything else as usual.
  bench::Case case_of(Kind kind, std::size_t bytes) const;

  /// What the rules choose for the case, named as the candidates are. Local.
  std::string chosen(const bench::Case& what) const;

  /// Seconds of one call by each target ("": what the rules choose), the slowest rank each time; infinity for one that
  /// turns out to be far behind. The others take turns in several rounds within about `seconds`, and the lower quartile
  /// of the rounds' medians counts. Throws Error where a result is wrong.
  std::vector<double> time(const bench::Case& what, const std::vector<std::string>& targets, double seconds);

  /// Rank 0's: ranks of several hosts may have other logarithms. What is measured is the same on all of them anyhow.
  std::vector<std::size_t> as_on_the_first(std::vector<std::size_t> numbers);

 private:
  struct Operands;
  double once(const bench::Case& what, Operands& at, const std::string& target, int iterations);

  Communicator ranks_;
  std::vector<std::string> backends_;
  std::unique_ptr<bench::Board> board_;
  unsigned epoch_ = 0;
};

}  // namespace tutti::tune
