#include "tools/tune/plan.hpp"

#include <algorithm>
#include <numeric>
#include <optional>

#include "tools/tune/model.hpp"
#include "tutti/log.hpp"
#include "tutti/provider/provider.hpp"

namespace tutti::tune {
namespace {

constexpr std::size_t smallest = 8;

int points(const Plan& plan, int world, Grid steps) {
  std::size_t sum = 0;
  for (const int n : numbers_of_ranks(world))
    for (const Kind kind : plan.kinds) sum += sizes_of(kind, n, steps, plan.end).size();
  return static_cast<int>(sum);
}

/// Returns the communicator of the first `n` ranks. Removes from `backends` those that cannot be created for it.
std::optional<Communicator> first_ranks(Communicator& world, int n, std::vector<std::string>& backends) {
  std::vector<int> ranks(static_cast<std::size_t>(n));
  std::iota(ranks.begin(), ranks.end(), 0);
  auto group = world.subgroup(ranks);
  if (!group) return group;
  std::erase_if(backends, [&](const std::string& name) {
    try {
      group->use_backend(name);
      return false;
    } catch (const Error& error) {
      const bool expected = find_provider(name, world.settings()).provider->make_backend == nullptr;
      if (world.rank() == 0) log(expected ? LogLevel::info : LogLevel::warn, error.what());
      return true;
    }
  });
  return group;
}

}  // namespace

std::vector<int> numbers_of_ranks(int all) {
  std::vector<int> numbers;
  for (int n = 2; n < all; n *= 2) numbers.push_back(n);
  if (all > 1) numbers.push_back(all);
  return numbers;
}

std::vector<std::size_t> sizes_of(Kind kind, int ranks, Grid steps, std::size_t end) {
  if (kind == Kind::barrier) return {0};
  const bool blocks = kind != Kind::allreduce && kind != Kind::reduce && kind != Kind::broadcast;
  return grid(smallest, std::max(smallest, blocks ? end / static_cast<std::size_t>(ranks) : end), steps.factor,
              steps.doubled_from);
}

Budget::Budget(const Plan& plan, int world, Grid steps)
    : until_(deadline_in(Seconds(plan.seconds))), points_(2 * points(plan, world, steps)) {}

double Budget::next() { return std::max(0.0, Seconds(until_ - Clock::now()).count()) / std::max(1, points_--); }

void on_each_number_of_ranks(Communicator& world, const Plan& plan, const std::function<void(Tuner&)>& play) {
  for (const int n : numbers_of_ranks(world.size())) {
    std::vector<std::string> backends = plan.backends;
    if (const auto group = first_ranks(world, n, backends)) {
      Tuner tuner(*group, backends);
      play(tuner);
    }
    // Ranks that do not measure wait in this barrier, so its timeout covers the whole plan.
    world.barrier({.timeout = 2 * plan.seconds + world.settings().timeout}).wait();
  }
}

}  // namespace tutti::tune
