// Tuner: compares the times of the candidates for a collective, on some ranks of a job.
#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <vector>

#include "tools/bench/board.hpp"
#include "tools/bench/sweep.hpp"
#include "tutti.hpp"

namespace tutti::tune {

/// Calls are collective among the tuner's ranks, with the same arguments on all of them.
class Tuner {
 public:
  /// `ranks` must already use all of the `backends`.
  Tuner(const Communicator& ranks, std::vector<std::string> backends);

  const Communicator& ranks() const noexcept { return ranks_; }

  /// Returns the candidates for one kind: tutti's algorithms that fit, and those of the backends.
  std::vector<std::string> candidates(Kind kind) const;

  /// Returns a case with f32 blocks of this many bytes, and defaults otherwise.
  bench::Case case_of(Kind kind, std::size_t bytes) const;

  /// Returns the rules' choice for the case, named like the candidates. Local.
  std::string chosen(const bench::Case& what) const;

  /// Returns the seconds of one call by each target ("": the rules' choice) on the slowest rank; infinity for a target
  /// that is far behind. Targets take turns in several rounds for about `seconds`; the lower quartile of the rounds'
  /// medians counts. Throws Error if a result is wrong.
  std::vector<double> time(const bench::Case& what, const std::vector<std::string>& targets, double seconds);

  /// Returns rank 0's numbers on all ranks. Times are equal on all ranks, but hosts may compute different logarithms.
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
