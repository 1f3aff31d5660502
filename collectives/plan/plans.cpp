// Plans: see plans.hpp.
#include "collectives/plan/plans.hpp"

#include <algorithm>

namespace tutti {

const Schedule& Plans::take(const Algorithm& algorithm, const Shape& shape) {
  const bool is_variable = shape.in_blocks != nullptr || shape.out_blocks != nullptr;
  const auto matches = [&](const Kept& one) {
    return one.algorithm == &algorithm && one.count == shape.count && one.root == shape.root;
  };
  const auto found = is_variable ? kept_.end() : std::ranges::find_if(kept_, matches);
  const bool is_new = found == kept_.end();
  Kept& one = is_new ? place_for_one() : *found;
  if (is_new) {
    one.algorithm = nullptr;  // in case that planning fails
    *one.plan = algorithm.plan(shape);
    one.algorithm = is_variable ? nullptr : &algorithm;
    one.count = shape.count;
    one.root = shape.root;
    ++made_;
  }
  one.taken = ++clock_;
  ++one.users;
  return *one.plan;
}

Plans::Kept& Plans::place_for_one() {
  Kept* oldest = nullptr;
  for (Kept& one : kept_) {
    if (one.users > 0) continue;
    if (one.algorithm == nullptr) return one;  // nobody would find it
    if (oldest == nullptr || one.taken < oldest->taken) oldest = &one;
  }
  if (oldest != nullptr && kept_.size() >= most_kept) return *oldest;
  kept_.push_back({nullptr, 0, 0, 0, 0, std::make_unique<Schedule>()});
  return kept_.back();
}

void Plans::give_back(const Schedule& plan) noexcept {
  const auto one = std::ranges::find_if(kept_, [&](const Kept& kept) { return kept.plan.get() == &plan; });
  if (--one->users > 0 || kept_.size() <= most_kept) return;
  std::swap(*one, kept_.back());
  kept_.pop_back();
}

std::size_t Plans::bytes() const noexcept {
  std::size_t held = 0;
  for (const Kept& one : kept_) held += one.plan->bytes();
  return held;
}

}  // namespace tutti
