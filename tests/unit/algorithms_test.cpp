// Every algorithm of the catalog in the simulator: 1 to 33 ranks, awkward counts, every root, in and out of place.
#include <gtest/gtest.h>

#include <set>
#include <string>
#include <vector>

#include "collectives/plan/algorithm.hpp"
#include "tests/support/simulator.hpp"
#include "tests/support/thinned.hpp"

namespace tutti::testing {
namespace {

constexpr int most_ranks = thinned ? 13 : 33;
constexpr std::uint64_t nobody = 0, everybody = ~std::uint64_t{0}, every_other = 0x5555555555555555;

bool is_rooted(Kind kind) {
  return kind == Kind::reduce || kind == Kind::broadcast || kind == Kind::gather || kind == Kind::scatter;
}

std::string label(const Trial& t) {
  return std::to_string(t.size) + " ranks, count " + std::to_string(t.count) + ", root " + std::to_string(t.root) +
         ", way " + std::to_string(t.way) +
         (t.in_place == nobody      ? ""
          : t.in_place == everybody ? ", in place"
                                    : ", in place on every other rank");
}

std::string text(const Cost& cost) {
  return std::to_string(cost.rounds) + " rounds, " + std::to_string(cost.elements) + " elements";
}

class EveryAlgorithm : public ::testing::TestWithParam<const Algorithm*> {
 protected:
  /// Returns what went wrong; empty if nothing did.
  std::string play(const Trial& trial, bool with_cost) const {
    const Algorithm& algorithm = *GetParam();
    const Outcome played = simulate(trial, algorithm.plan);
    if (!played.defect.empty()) return label(trial) + ": " + played.defect;
    if (!with_cost) return {};
    const Cost formula = cost_of(algorithm, Shapes(trial)[0]);
    const bool is_full = trial.count >= static_cast<std::size_t>(trial.size) || trial.kind == Kind::barrier;
    const bool rounds_agree = is_full ? played.cost.rounds == formula.rounds : played.cost.rounds <= formula.rounds;
    if (rounds_agree && played.cost.elements == formula.elements) return {};
    return label(trial) + ": it takes " + text(played.cost) + ", the formula says " + text(formula);
  }

  std::string play_all_ways(Trial trial) const {
    const int ways = ways_of(*GetParam(), Shapes(trial)[0]);
    std::string wrong;
    for (trial.way = 0; trial.way < ways && wrong.empty(); ++trial.way) wrong = play(trial, true);
    return wrong;
  }

  bool fits(const Trial& trial) const { return GetParam()->fits == nullptr || GetParam()->fits(Shapes(trial)[0]); }
};

// Calls of many ranks with many elements take nearly all the time and find little more than smaller ones. So only some
// numbers of ranks and some roots are played, each with one of the possible placements.
constexpr std::size_t many = 1000;
bool is_large(int p, std::size_t count) { return p > 10 && count == many; }
bool is_played(int p, std::size_t count) { return !is_large(p, count) || p % 5 == 1 || p >= most_ranks - 1; }

/// Returns the sets of ranks that call in place, one bit for each rank.
std::vector<std::uint64_t> placements(Kind kind, int p, std::size_t count) {
  if (kind == Kind::alltoall) return {nobody};                            // in place, an alltoall gets a copy
  if (kind == Kind::broadcast || kind == Kind::barrier) return {nobody};  // it has a single buffer, or none
  std::vector<std::uint64_t> all{nobody, everybody};
  if (!is_rooted(kind)) all.push_back(every_other);  // with a root, only the root's placement matters
  if (is_large(p, count)) return {all[static_cast<std::size_t>(p) % all.size()]};
  return all;
}

std::vector<int> roots(Kind kind, int p, std::size_t count) {
  if (!is_rooted(kind)) return {0};
  if (is_large(p, count)) return {0, 1, p / 2, p - 1};
  std::vector<int> all;
  for (int root = 0; root < p; ++root) all.push_back(root);
  return all;
}

TEST_P(EveryAlgorithm, DoesWhatItSaysAtThePriceItSays) {
  const Algorithm& algorithm = *GetParam();
  for (int p = 1; p <= most_ranks; ++p) {
    const auto n = static_cast<std::size_t>(p);
    for (const std::size_t count : std::set<std::size_t>{0, 1, n - 1, n, n + 1, many}) {
      if (!is_played(p, count)) continue;
      for (const int root : roots(algorithm.kind, p, count))
        for (const std::uint64_t in_place : placements(algorithm.kind, p, count)) {
          const Trial trial{.kind = algorithm.kind,
                            .size = p,
                            .count = count,
                            .root = root,
                            .in_place = in_place,
                            .lanes = algorithm.lanes};
          if (fits(trial)) {
            ASSERT_EQ(play_all_ways(trial), "");
          }
        }
    }
  }
}

/// Counts for v-forms. `kind_of`: 0 uneven with zeros, 1 all on one rank, 2 all zero, 3 growing.
std::size_t uneven(int i, int p, int kind_of) {
  switch (kind_of) {
    case 0: return static_cast<std::size_t>((i * 7 + p) % 5);
    case 1: return i == p / 2 ? 11u : 0u;
    case 2: return 0;
    default: return static_cast<std::size_t>(i + 1);
  }
}

Trial variable_trial(Kind kind, int p, int root, int kind_of) {
  Trial trial{.kind = kind, .size = p, .root = root};
  const bool by_in = kind == Kind::reduce_scatter || kind == Kind::scatter;
  for (int rank = 0; rank < p; ++rank) {
    std::vector<std::size_t> ins, outs;
    for (int i = 0; i < p; ++i) {
      ins.push_back(uneven(kind == Kind::alltoall ? rank * 3 + i * 2 : i, p, kind_of));
      outs.push_back(uneven(kind == Kind::alltoall ? i * 3 + rank * 2 : i, p, kind_of));
    }
    if (by_in || kind == Kind::alltoall) trial.in_counts.push_back(ins);
    if (!by_in) trial.out_counts.push_back(outs);
  }
  return trial;
}

class EveryVariableAlgorithm : public EveryAlgorithm {};

TEST_P(EveryVariableAlgorithm, PlansTheFormWithCountsPerRank) {
  const Algorithm& algorithm = *GetParam();
  for (int p = 1; p <= most_ranks; ++p)
    for (int kind_of = 0; kind_of < 4; ++kind_of)
      for (const int root : roots(algorithm.kind, p, kind_of == 0 ? 0 : many))
        for (const std::uint64_t in_place : placements(algorithm.kind, p, 0)) {
          Trial trial = variable_trial(algorithm.kind, p, root, kind_of);
          trial.in_place = in_place;
          trial.lanes = algorithm.lanes;
          if (fits(trial)) {
            ASSERT_EQ(play(trial, false), "");
          }
        }
}

std::string test_name(const ::testing::TestParamInfo<const Algorithm*>& tested) {
  return std::string(name(tested.param->kind)) + "_" + std::string(tested.param->name);
}

std::vector<const Algorithm*> variable_ones() {
  std::vector<const Algorithm*> found;
  for (const Algorithm* algorithm : catalog())
    if (algorithm->variable) found.push_back(algorithm);
  return found;
}

INSTANTIATE_TEST_SUITE_P(Catalog, EveryAlgorithm, ::testing::ValuesIn(catalog().begin(), catalog().end()), test_name);
INSTANTIATE_TEST_SUITE_P(Catalog, EveryVariableAlgorithm, ::testing::ValuesIn(variable_ones()), test_name);

TEST(Catalog, NamesAreUniqueAndFound) {
  std::set<std::pair<Kind, std::string_view>> names;
  for (const Algorithm* algorithm : catalog()) {
    EXPECT_TRUE(names.insert({algorithm->kind, algorithm->name}).second) << algorithm->name;
    EXPECT_EQ(find_algorithm(algorithm->kind, algorithm->name), algorithm);
    EXPECT_FALSE(algorithm->idea.empty());
  }
  EXPECT_EQ(find_algorithm(Kind::allreduce, "no such algorithm"), nullptr);
  EXPECT_EQ(find_algorithm(Kind::barrier, "ring"), nullptr);
}

TEST(Catalog, HasForEveryKindAnAlgorithmForAnyShape) {
  for (int kind = 0; kind < kind_count; ++kind) {
    if (static_cast<Kind>(kind) == Kind::send) continue;  // messages have no plan
    bool found = false;
    for (const Algorithm* a : catalog()) found |= a->kind == static_cast<Kind>(kind) && a->fits == nullptr;
    EXPECT_TRUE(found) << name(static_cast<Kind>(kind));
  }
}

}  // namespace
}  // namespace tutti::testing
