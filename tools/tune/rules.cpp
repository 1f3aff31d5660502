#include "tools/tune/rules.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstdio>

namespace tutti::tune {
namespace {

constexpr double tolerance = 1.05;  // a candidate within this factor of the best one is as good
// Large sizes double: calls that last about as long as a scheduler's time slice have irregular times.
constexpr Grid steps{4, std::size_t{2} << 20};

/// The measurements of one kind on one number of ranks.
class Choice {
 public:
  Choice(Tuner& tuner, Budget& budget, Kind kind, std::size_t end)
      : tuner_(tuner),
        budget_(budget),
        kind_(kind),
        targets_(tuner.candidates(kind)),
        sizes_(sizes_of(kind, tuner.ranks().size(), steps, end)) {
    for (const std::string& target : targets_) curves_.push_back({target, {}});
  }

  Kind kind() const noexcept { return kind_; }
  std::size_t points() const noexcept { return sizes_.size(); }
  std::vector<Range> ranges() const { return choose(sizes_, curves_, tolerance); }

  void measure_all() {
    for (std::size_t k = 0; k < sizes_.size(); ++k) insert(k, measure(sizes_[k]));
  }

  /// Measures again the sizes at which the best candidate overall is beaten, and keeps the shorter times, because
  /// disturbances only lengthen times.
  void measure_doubtful() {
    const std::vector<std::size_t> again = tuner_.as_on_the_first(doubtful(curves_, sizes_.size(), tolerance));
    budget_.more(again.size());
    for (const std::size_t k : again) {
      const std::vector<double> seconds = measure(sizes_[k]);
      for (std::size_t i = 0; i < curves_.size(); ++i)
        curves_[i].seconds[k] = std::min(curves_[i].seconds[k], seconds[i]);
    }
  }

  /// Measures sizes between neighbours for which different candidates are chosen.
  void measure_borders() {
    const std::vector<std::size_t> between = tuner_.as_on_the_first(borders(sizes_, ranges()));
    budget_.more(between.size());
    for (const std::size_t size : between) {
      const auto behind = std::ranges::lower_bound(sizes_, size);
      insert(static_cast<std::size_t>(behind - sizes_.begin()), measure(size));
      sizes_.insert(behind, size);
    }
  }

 private:
  std::vector<double> measure(std::size_t size) {
    return tuner_.time(tuner_.case_of(kind_, size), targets_, budget_.next());
  }
  void insert(std::size_t at, const std::vector<double>& seconds) {
    for (std::size_t i = 0; i < curves_.size(); ++i)
      curves_[i].seconds.insert(curves_[i].seconds.begin() + static_cast<std::ptrdiff_t>(at), seconds[i]);
  }

  Tuner& tuner_;
  Budget& budget_;
  Kind kind_;
  std::vector<std::string> targets_;
  std::vector<std::size_t> sizes_;
  std::vector<Curve> curves_;
};

void show(const Tuned& tuned) {
  std::string line;
  for (const Range& range : tuned.ranges)
    line += (line.empty() ? "" : fmt::format(", from {} on ", range.low)) + range.target;
  fmt::print("{:<15} {:>4} ranks  {}\n", name(tuned.kind), tuned.ranks_high, line);
  std::fflush(stdout);
}

}  // namespace

std::string rules_text(const std::vector<Tuned>& all) {
  std::string text;
  for (const Tuned& tuned : all)
    for (const Range& range : tuned.ranges) {
      text += fmt::format("{}: {}..{} ranks {}..{} hosts {}={}\n", name(tuned.kind), range.low,
                          range.high == SIZE_MAX ? "" : std::to_string(range.high), tuned.ranks_low, tuned.ranks_high,
                          tuned.several_hosts ? "2.." : "..1", range.target);
    }
  return text;
}

// A disturbance may last for seconds. So the second measurement of a size comes after the first one of all kinds, and
// the third one, if the size is still in doubt, after that.
std::vector<Tuned> make_rules(Communicator& world, const Plan& plan) {
  Budget budget(plan, world.size(), steps);
  std::vector<Tuned> all;
  int before = 0;
  on_each_number_of_ranks(world, plan, [&](Tuner& tuner) {
    const int ranks = tuner.ranks().size();
    const bool several_hosts = tuner.ranks().topology().hosts().count() > 1;
    std::vector<Choice> choices;
    for (const Kind kind : plan.kinds) choices.emplace_back(tuner, budget, kind, plan.end).measure_all();
    for (const Choice& choice : choices) budget.less(choice.points());  // doubtful sizes are added again
    for (int look = 2; look <= 3; ++look)
      for (Choice& choice : choices) choice.measure_doubtful();
    for (Choice& choice : choices) {
      choice.measure_borders();
      all.push_back({choice.kind(), before + 1, ranks, several_hosts, choice.ranges()});
      if (world.rank() == 0) show(all.back());
    }
    before = ranks;
  });
  return all;
}

}  // namespace tutti::tune
