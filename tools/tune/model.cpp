#include "tools/tune/model.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

namespace tutti::tune {
namespace {

// The fastest at size `i`.
double best(std::span<const Curve> curves, std::size_t i) {
  double seconds = std::numeric_limits<double>::infinity();
  for (const Curve& curve : curves) seconds = std::min(seconds, curve.seconds[i]);
  return seconds;
}

constexpr double unmeasured_cost = 2;  // as a logarithm: some seven times as slow

struct Run {
  const Curve* curve = nullptr;
  std::size_t end = 0;  // behind its last size
  double cost = 0;      // sum of the logarithms of its times
};

// The candidate that stays good enough for longest from size `begin` on; of several, the faster one.
Run longest(std::span<const Curve> curves, std::span<const double> bests, std::size_t begin, double tolerance) {
  Run chosen;
  for (const Curve& curve : curves) {
    Run run{&curve, begin, 0};
    const auto good = [&](std::size_t i) {
      return std::isfinite(curve.seconds[i]) && curve.seconds[i] <= tolerance * bests[i];
    };
    for (; run.end < bests.size() && good(run.end); ++run.end)
      run.cost += std::log(curve.seconds[run.end] / bests[run.end]);
    const bool better = run.end > chosen.end || (run.end == chosen.end && run.cost < chosen.cost);
    if (run.end > begin && (chosen.curve == nullptr || better)) chosen = run;
  }
  return chosen;
}

// The last size for which `left` is to be taken, between the measured sizes a and b.
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
  std::vector<double> bests;
  for (std::size_t i = 0; i < sizes.size(); ++i) bests.push_back(best(curves, i));
  std::vector<Range> ranges;
  const Curve* before = nullptr;
  for (std::size_t begin = 0; begin < sizes.size();) {
    const Run run = longest(curves, bests, begin, tolerance);
    if (run.curve == nullptr) break;  // nobody was measured there
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

std::vector<bool> doubtful(std::span<const Curve> curves, std::size_t sizes, double tolerance) {
  std::vector<double> bests;
  for (std::size_t i = 0; i < sizes; ++i) bests.push_back(best(curves, i));
  const auto cost = [&](const Curve& curve) {
    double sum = 0;
    for (std::size_t i = 0; i < sizes; ++i) sum += std::min(std::log(curve.seconds[i] / bests[i]), unmeasured_cost);
    return sum;
  };
  const auto favourite = std::ranges::min_element(curves, {}, cost);
  std::vector<bool> again(sizes, false);
  if (favourite != curves.end())
    for (std::size_t i = 0; i < sizes; ++i) again[i] = favourite->seconds[i] > tolerance * bests[i];
  return again;
}

std::vector<std::size_t> grid(std::size_t first, std::size_t last, std::size_t factor) {
  std::vector<std::size_t> sizes;
  for (std::size_t size = first; size < last; size *= factor) sizes.push_back(size);
  sizes.push_back(last);
  return sizes;
}

}  // namespace tutti::tune
