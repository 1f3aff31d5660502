// StepLosses: the losses of steps, summed over the ranks a few steps at a time.
#pragma once

#include <cstddef>
#include <span>
#include <utility>
#include <vector>

#include "tutti/communicator.hpp"
#include "tutti/work.hpp"

namespace tutti::engine {

/// Each rank adds its own sums of losses for each step. Exchanging them makes the sums over all ranks known. They are
/// added in an order that does not depend on when they are exchanged. If steps are divided into grains (equal parts of
/// their samples), the order does not depend on the number of ranks either. One thread.
class StepLosses {
 public:
  /// The loss of a step, summed over the samples of all ranks.
  struct Sum {
    std::size_t step = 0;
    double total = 0, samples = 0;
  };

  /// `grains`: the number of grains of a step, whose losses are added as a binary tree; 0: each rank has one sum.
  StepLosses(Communicator world, std::size_t grains) : world_(std::move(world)), grains_(grains) {}

  /// Begins a step. Returns this rank's sums for it, initially 0: one sum, or one for each grain, of which this rank
  /// sets those of its grains. The caller may change them until the next call.
  std::span<double> begin();
  /// Ends step number `step`, in which all ranks together had `samples` samples.
  void end(std::size_t step, std::size_t samples) {
    steps_.push_back({.step = step, .samples = static_cast<double>(samples)});
  }

  /// Starts to exchange the sums that were not exchanged yet, unless an exchange is under way. Called by all ranks
  /// after the same steps; does not block.
  void start();
  /// Waits for the exchange that is under way. Returns the steps in it, in order; none if there is no exchange. Called
  /// by all ranks.
  std::vector<Sum> finish();

 private:
  std::size_t width() const noexcept { return grains_ > 0 ? grains_ : 1; }

  Communicator world_;
  const std::size_t grains_;
  std::vector<Sum> steps_;  ///< not sent yet, as are sums_
  std::vector<double> sums_;
  std::vector<Sum> sent_steps_;  ///< in under_way_, which uses sent_ and all_
  std::vector<double> sent_, all_;
  Work under_way_;
};

}  // namespace tutti::engine
