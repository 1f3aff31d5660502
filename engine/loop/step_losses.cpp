#include "engine/loop/step_losses.hpp"

#include <algorithm>

#include "engine/strategies/grain_tree.hpp"

namespace tutti::engine {
namespace {

// Up to this number of ranks, all sums are gathered and added in the order of the ranks. More ranks use an allreduce,
// because the gathered bytes grow with the number of ranks.
constexpr int most_gathered = 64;

}  // namespace

std::span<double> StepLosses::begin() {
  sums_.resize(sums_.size() + width());
  return std::span(sums_).last(width());
}

void StepLosses::start() {
  if (!sent_steps_.empty() || steps_.empty()) return;
  sent_.swap(sums_);
  sent_steps_.swap(steps_);
  if (grains_ > 0) {
    under_way_ = world_.allreduce(sent_, sum);  // exact, because each number is nonzero on one rank only
    return;
  }
  if (world_.size() > most_gathered) {
    // This algorithm adds the ranks' values in the same order for any number of sums; others do not.
    under_way_ = world_.allreduce(sent_, sum, {.algorithm = "planned/recursive_doubling"});
    return;
  }
  all_.resize(sent_.size() * static_cast<std::size_t>(world_.size()));
  under_way_ = world_.allgather(sent_, all_);
}

std::vector<StepLosses::Sum> StepLosses::finish() {
  under_way_.wait();
  under_way_ = {};
  std::vector<Sum> found = std::exchange(sent_steps_, {});
  for (std::size_t i = 0; i < found.size(); ++i) {
    double& total = found[i].total;
    if (grains_ > 0)
      total = tree_sum(std::span(sent_).subspan(i * grains_, grains_),
                       std::min(grains_, static_cast<std::size_t>(found[i].samples)));
    else if (all_.empty())
      total = sent_[i];
    else
      for (std::size_t at = i; at < all_.size(); at += found.size()) total += all_[at];
  }
  sent_.clear();
  all_.clear();
  return found;
}

}  // namespace tutti::engine
