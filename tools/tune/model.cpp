#include "tools/tune/model.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

namespace tutti::tune {
namespace {

// the largest cost of one size, as a logarithm, so that a disturbed measurement counts little
constexpr double most_cost = 0.25;

std::vector<double> bests_of(std::span<const Curve> curves, std::size_t sizes) {
  std::vector<double> bests(sizes, std::numeric_limits<double>::infinity());
  for (const Curve& curve : curves)
    for (std::size_t i = 0; i < sizes; ++i) bests[i] = std::min(bests[i], curve.seconds[i]);
  return bests;
}

// Returns how far `curve` is behind the best times at the sizes [begin, end), as a sum of logarithms of ratios.
double cost(const Curve& curve, std::span<const double> bests, std::size_t begin, std::size_t end) {
  double sum = 0;
  for (std::size_t i = begin; i < end; ++i)
    if (std::isfinite(bests[i])) sum += std::min(std::log(curve.seconds[i] / bests[i]), most_cost);
  return sum;
}

// Returns the candidate with the least cost over all sizes; null if there are no candidates.
const Curve* favourite_of(std::span<const Curve> curves, std::span<const double> bests) {
  const auto one =
      std::ranges::min_element(curves, {}, [&](const Curve& curve) { return cost(curve, bests, 0, bests.size()); });
  return one == curves.end() ? nullptr : &*one;
}

bool good(const Curve& curve, std::span<const double> bests, std::size_t i, double tolerance) {
  return std::isfinite(curve.seconds[i]) && curve.seconds[i] <= tolerance * bests[i];
}

struct Run {
  const Curve* curve = nullptr;
  std::size_t end = 0;  // index after its last size
};

// Returns the favourite for as long as it is good. If it is not good at `begin`, returns the candidate that stays good
// for longest until the favourite is good again; among several, the one with the least cost.
Run next_run(std::span<const Curve> curves, const Curve& favourite, std::span<const double> bests, std::size_t begin,
             double tolerance) {
  const auto end_of = [&](const Curve& curve) {
    std::size_t end = begin;
    while (end < bests.size() && good(curve, bests, end, tolerance) &&
           (&curve == &favourite || !good(favourite, bests, end, tolerance)))
      ++end;
    return end;
  };
  if (const std::size_t end = end_of(favourite); end > begin) return {&favourite, end};
  Run chosen{nullptr, begin};
  double least = 0;
  for (const Curve& curve : curves) {
    const std::size_t end = end_of(curve);
    const double behind = cost(curve, bests, begin, end);
    if (end > chosen.end || (end == chosen.end && chosen.curve != nullptr && behind < least)) {
      chosen = {&curve, end};
      least = behind;
    }
  }
  return chosen;
}

// Returns the largest size for which `left` is chosen, between the measured sizes number a and a + 1.
std::size_t meeting(const Curve& left, const Curve& right, std::span<const std::size_t> sizes, std::size_t a) {
  const double x0 = std::log(static_cast<double>(std::max<std::size_t>(sizes[a], 1)));
  const double x1 = std::log(static_cast<double>(sizes[a + 1]));
  const double gap0 = std::log(left.seconds[a] / right.seconds[a]);
  const double gap1 = std::log(left.seconds[a + 1] / right.seconds[a + 1]);
  const bool crosses = std::isfinite(gap0) && std::isfinite(gap1) && gap0 < 0 && gap1 > 0;
  const double where = crosses ? gap0 / (gap0 - gap1) : 0.5;
  const auto bytes = static_cast<std::size_t>(std::exp(x0 + where * (x1 - x0)));
  return std::clamp(bytes, sizes[a], sizes[a + 1] - 1);
}

}  // namespace

std::vector<Range> choose(std::span<const std::size_t> sizes, std::span<const Curve> curves, double tolerance) {
  const std::vector<double> bests = bests_of(curves, sizes.size());
  const Curve* const favourite = favourite_of(curves, bests);
  std::vector<Range> ranges;
  const Curve* before = nullptr;
  for (std::size_t begin = 0; favourite != nullptr && begin < sizes.size();) {
    const Run run = next_run(curves, *favourite, bests, begin, tolerance);
    if (run.curve == nullptr) break;  // no candidate was measured there
    Range range{0, SIZE_MAX, run.curve->target};
    if (before != nullptr) {
      ranges.back().high = meeting(*before, *run.curve, sizes, begin - 1);
      range.low = ranges.back().high + 1;
    }
    ranges.push_back(range);
    before = run.curve;
    begin = run.end;
  }
  return ranges;
}

std::vector<std::size_t> doubtful(std::span<const Curve> curves, std::size_t sizes, double tolerance) {
  const std::vector<double> bests = bests_of(curves, sizes);
  const Curve* const favourite = favourite_of(curves, bests);
  std::vector<std::size_t> again;
  for (std::size_t i = 0; favourite != nullptr && i < sizes; ++i)
    if (sizes == 1 || favourite->seconds[i] > tolerance * bests[i]) again.push_back(i);
  return again;
}

std::vector<std::size_t> borders(std::span<const std::size_t> sizes, std::span<const Range> ranges) {
  const auto range_of = [&](std::size_t size) {
    return std::ranges::find_if(ranges, [&](const Range& range) { return size <= range.high; });
  };
  std::vector<std::size_t> between;
  for (std::size_t i = 0; i + 1 < sizes.size(); ++i)
    if (sizes[i + 1] > 2 * sizes[i] && range_of(sizes[i]) != range_of(sizes[i + 1]))
      between.push_back(static_cast<std::size_t>(
          std::lround(std::sqrt(static_cast<double>(sizes[i]) * static_cast<double>(sizes[i + 1])))));
  return between;
}

std::vector<std::size_t> grid(std::size_t first, std::size_t last, std::size_t factor, std::size_t doubled_from) {
  std::vector<std::size_t> sizes;
  for (std::size_t size = first; size < last; size *= size < doubled_from ? factor : 2) sizes.push_back(size);
  sizes.push_back(last);
  return sizes;
}

}  // namespace tutti::tune
