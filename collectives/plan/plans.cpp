// Plans: see plans.hpp.
#include "collectives/plan/plans.hpp"

#include <algorithm>

namespace tutti {

std::atomic<std::size_t> Plans::in_process_{0};
static_assert(Plans::most_kept_in_process * sizeof(Schedule) <= std::size_t{6} << 20);

Plans::~Plans() { in_process_.fetch_sub(kept_.size(), std::memory_order_relaxed); }

const Schedule& Plans::take(const Algorithm& algorithm, const Shape& shape) {
  const bool is_variable = shape.in_blocks != nullptr || shape.out_blocks != nullptr;
  const auto matches = [&](const Kept& one) {
    return one.algorithm == &algorithm && one.count == shape.count && one.root == shape.root && one.way == shape.way;
  };
  const auto found = is_variable ? kept_.end() : std::ranges::find_if(kept_, matches);
  const bool is_new = found == kept_.end();
  Kept& one = is_new ? place_for_one() : *found;
  if (is_new) {
    one.algorithm = nullptr;  // stays null if plan() throws
    *one.plan = algorithm.plan(shape);
    one.algorithm = is_variable ? nullptr : &algorithm;
    one.count = shape.count;
    one.root = shape.root;
    one.way = shape.way;
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
    if (one.algorithm == nullptr) return one;  // take() cannot find it: replace it first
    if (oldest == nullptr || one.taken < oldest->taken) oldest = &one;
  }
  const bool is_full = kept_.size() >= most_kept || in_process_.load(std::memory_order_relaxed) >= most_kept_in_process;
  if (oldest != nullptr && is_full) return *oldest;
  kept_.push_back({nullptr, 0, 0, 0, 0, 0, std::make_unique<Schedule>()});
  in_process_.fetch_add(1, std::memory_order_relaxed);
  return kept_.back();
}

bool Plans::keeps_too_many() const noexcept {
  return kept_.size() > most_kept || in_process_.load(std::memory_order_relaxed) > most_kept_in_process;
}

void Plans::give_back(const Schedule& plan) noexcept {
  const auto one = std::ranges::find_if(kept_, [&](const Kept& kept) { return kept.plan.get() == &plan; });
  if (--one->users > 0 || !keeps_too_many()) return;
  std::swap(*one, kept_.back());
  kept_.pop_back();
  in_process_.fetch_sub(1, std::memory_order_relaxed);
}

std::size_t Plans::bytes() const noexcept {
  std::size_t held = 0;
  for (const Kept& one : kept_) held += one.plan->bytes();
  return held;
}

}  // namespace tutti
