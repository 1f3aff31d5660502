#include "engine/strategies/partners.hpp"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <span>

#include "engine/data/random.hpp"

namespace tutti::engine {
namespace {

double real(Random& draw) { return std::ldexp(static_cast<double>(draw.next() >> 11), -53); }

}  // namespace

std::vector<int> group_of(int rank, int ranks, std::int64_t group, std::uint64_t seed, std::uint64_t sync) {
  std::vector<int> order(static_cast<std::size_t>(ranks));
  std::iota(order.begin(), order.end(), 0);
  shuffle(std::span(order), Random::keyed(seed, 0x70616972, sync));
  const auto place = std::ranges::find(order, rank) - order.begin();
  const std::int64_t begin = place / group * group, end = std::min<std::int64_t>(begin + group, ranks);
  std::vector<int> members(order.begin() + begin, order.begin() + end);
  std::ranges::sort(members);
  return members;
}

int pushes_to(int rank, int ranks, double probability, std::uint64_t seed, std::uint64_t step) {
  if (ranks < 2) return -1;
  Random draw = Random::keyed(seed, 0x70757368, step, rank);
  if (real(draw) >= probability) return -1;
  const int other = static_cast<int>(draw.below(static_cast<std::uint64_t>(ranks - 1)));
  return other < rank ? other : other + 1;
}

bool happens(double probability, std::uint64_t seed, std::uint64_t step) {
  Random draw = Random::keyed(seed, 0x73796e63, step);
  return real(draw) < probability;
}

}  // namespace tutti::engine
