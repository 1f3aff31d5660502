#include "tools/tune/check.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <vector>

namespace tutti::tune {
namespace {

constexpr Grid steps{2, 0};
constexpr double doubtful_below = 0.95;

std::string as_time(double seconds) {
  if (!std::isfinite(seconds)) return "-";
  return seconds < 1e-3 ? fmt::format("{:.1f} us", seconds * 1e6) : fmt::format("{:.2f} ms", seconds * 1e3);
}

/// The candidates' times at one size. The last time is that of the rules' choice.
struct Race {
  bench::Case what;
  std::size_t bytes = 0;
  std::string chosen;
  std::vector<std::string> others;
  std::vector<double> seconds;

  void run(Tuner& tuner, double budget) {
    std::vector<std::string> targets = others;
    targets.emplace_back();
    const std::vector<double> now = tuner.time(what, targets, budget);
    seconds.resize(now.size(), std::numeric_limits<double>::infinity());
    for (std::size_t i = 0; i < now.size(); ++i) seconds[i] = std::min(seconds[i], now[i]);
  }

  Compared result() const {
    Compared compared;
    compared.chosen = chosen;
    compared.ours = seconds.back();
    const auto best = std::ranges::min_element(seconds.begin(), seconds.end() - 1);
    if (best == seconds.end() - 1 || !std::isfinite(*best)) return compared;
    compared.best = *best;
    compared.other = others[static_cast<std::size_t>(best - seconds.begin())];
    return compared;
  }
};

std::string line(const Race& race, const Compared& one) {
  return fmt::format("{:<15} {:>4} ranks {:>10} B  ours {:>10} {:<20} best other {:>10} {:<20} ratio {:.2f}{}",
                     name(race.what.kind), race.what.ranks, race.bytes, as_time(one.ours), one.chosen,
                     as_time(one.best), one.other, one.ratio(),
                     one.first > 0 ? fmt::format(" (first try {:.2f})", one.first) : "");
}

/// The check on one number of ranks. If the rules' choice looks too slow at a size, the size is measured again after
/// all others, and each candidate's shorter time counts: disturbances last for seconds, and only lengthen times.
class Checking {
 public:
  Checking(Tuner& tuner, Budget& budget, Verdict& verdict) : tuner_(tuner), budget_(budget), verdict_(verdict) {}

  void first_try(Kind kind, std::size_t bytes) {
    Race race{tuner_.case_of(kind, bytes), bytes, {}, tuner_.candidates(kind), {}};
    race.chosen = tuner_.chosen(race.what);
    std::erase(race.others, race.chosen);
    race.run(tuner_, budget_.next());
    const Compared compared = race.result();
    if (compared.ratio() < doubtful_below) return doubtful_.push_back(std::move(race));
    budget_.less(1);
    say(race, compared);
  }

  void second_tries() {
    for (Race& race : doubtful_) {
      const double first = race.result().ratio();
      race.run(tuner_, budget_.next());
      Compared compared = race.result();
      compared.first = first;
      say(race, compared);
    }
  }

 private:
  void say(const Race& race, const Compared& compared) {
    verdict_.add(compared);
    if (tuner_.ranks().rank() == 0) fmt::print("{}\n", line(race, compared));
    std::fflush(stdout);
  }

  Tuner& tuner_;
  Budget& budget_;
  Verdict& verdict_;
  std::vector<Race> doubtful_;
};

}  // namespace

void Verdict::add(const Compared& one) {
  ++sizes_;
  if (one.first > 0) ++twice_;
  if (std::round(one.ratio() * 100) < std::round(enough * 100)) ++below_;  // rounded as in the output
  least_ = std::min(least_, one.ratio());
}

std::string Verdict::text() const {
  if (std::isinf(least_)) return fmt::format("nothing comes near the rules' choice at any of {} sizes", sizes_);
  std::string text = fmt::format("least ratio of the best other choice / ours: {:.2f}, of {} sizes, {} measured twice",
                                 least_, sizes_, twice_);
  if (!good())
    text += fmt::format(
        "; {} below {:.2f}: tune anew while nothing else runs, with more --seconds, or drop what overrides the rules",
        below_, enough);
  return text;
}

int check(Communicator& world, const Plan& plan) {
  Budget budget(plan, world.size(), steps);
  Verdict verdict;
  on_each_number_of_ranks(world, plan, [&](Tuner& tuner) {
    Checking checking(tuner, budget, verdict);
    for (const Kind kind : plan.kinds)
      for (const std::size_t bytes : sizes_of(kind, tuner.ranks().size(), steps, plan.end))
        checking.first_try(kind, bytes);
    checking.second_tries();
  });
  if (world.rank() != 0) return 0;  // rank 0 decides for all
  fmt::print("{}\n", verdict.text());
  return verdict.good() ? 0 : 1;
}

}  // namespace tutti::tune
