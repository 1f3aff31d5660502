// Quorum, grace, bounded staleness, and workers that enter and part, on a shard to which the test plays arrivals.
#include <gmock/gmock.h>

#include <cmath>

#include "collectives/parameter_server/elements.hpp"
#include "tests/support/played_shard.hpp"

namespace tutti::testing {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::UnorderedElementsAre;
using NamedRule = std::pair<std::string, ServerRule>;

// The rule "mean" adds the mean of a round, and records the round's workers.
struct Rounds {
  NamedRule mean(int quorum, double grace) {
    return {"mean",
            {.apply =
                 [this](const ShardView& shard, std::span<const Pushed> pushed) {
                   std::vector<int> who;
                   double sum = 0;
                   for (const Pushed& one : pushed) {
                     who.push_back(one.meta.worker);
                     sum += elements<double>(one.data)[0];
                     tokens += one.meta.tokens;
                   }
                   elements<double>(shard.values)[0] += sum / static_cast<double>(pushed.size());
                   rounds.push_back(who);
                 },
             .quorum = quorum,
             .grace = grace}};
  }
  std::vector<std::vector<int>> rounds;
  std::uint64_t tokens = 0;
};

TEST(Quorum, LateOnesAreInTheNextRound) {
  Rounds seen;
  const NamedRule rule = seen.mean(2, 0);
  PlayedShard played({0}, 3);
  enum { a, b, c };
  played.push(rule, {2}, {.worker = c, .tokens = 1});
  EXPECT_THAT(played.answered(), IsEmpty());
  played.push(rule, {4}, {.worker = a, .tokens = 10});
  EXPECT_THAT(played.answered(), ElementsAre(a, c)) << "sorted by worker";
  EXPECT_EQ(played.values()[0], 3);
  played.push(rule, {10}, {.worker = b, .tokens = 100});
  EXPECT_THAT(played.answered(), IsEmpty());
  played.push(rule, {20}, {.worker = a, .tokens = 1000});
  EXPECT_THAT(played.answered(), ElementsAre(a, b));
  EXPECT_EQ(played.values()[0], 18);
  EXPECT_THAT(seen.rounds, ElementsAre(ElementsAre(a, c), ElementsAre(a, b)));
  EXPECT_EQ(seen.tokens, 1111u) << "none is lost or counted twice";
  EXPECT_EQ(played.shard.version(), 2u);
}

TEST(Quorum, OnePushOfEachWorkerIsInARound) {
  Rounds seen;
  const NamedRule rule = seen.mean(2, 0);
  PlayedShard played({0}, 2);
  for (const double value : {1, 2, 3}) played.push(rule, {value}, {.worker = 0});
  EXPECT_THAT(played.answered(), IsEmpty()) << "the quorum is of workers";
  const std::uint64_t pulled = played.pull(0);
  ASSERT_EQ(played.answers.size(), 1u) << "who only reads does not wait";
  EXPECT_EQ(played.answers[0].sequence, pulled);
  (void)played.answered();
  for (const double value : {10, 20}) played.push(rule, {value}, {.worker = 1});
  EXPECT_THAT(played.answered(), ElementsAre(0, 1, 0, 1));
  EXPECT_EQ(played.values()[0], 5.5 + 11);
  EXPECT_THAT(seen.rounds, ElementsAre(ElementsAre(0, 1), ElementsAre(0, 1)));
}

TEST(Quorum, WaitsForMoreWhileGraceLasts) {
  Rounds seen;
  const NamedRule rule = seen.mean(2, 5);
  PlayedShard played({0}, 4);
  played.push(rule, {1}, {.worker = 0});
  played.sleep(100);
  EXPECT_THAT(played.answered(), IsEmpty()) << "grace begins with the quorum";
  EXPECT_EQ(played.shard.due(), never);
  played.push(rule, {1}, {.worker = 1});
  EXPECT_EQ(played.shard.due(), played.now + std::chrono::seconds(5));
  played.sleep(4);
  played.push(rule, {4}, {.worker = 2});
  EXPECT_THAT(played.answered(), IsEmpty());
  played.sleep(1);
  EXPECT_THAT(played.answered(), ElementsAre(0, 1, 2));
  EXPECT_EQ(played.values()[0], 2);
  EXPECT_EQ(played.shard.due(), never);
  for (const int worker : {3, 2, 1, 0}) played.push(rule, {1}, {.worker = worker});
  EXPECT_THAT(played.answered(), ElementsAre(0, 1, 2, 3)) << "all are there: nobody is waited for";
}

TEST(Quorum, IsOfThoseWhoAreThere) {
  Rounds seen;
  const NamedRule rule = seen.mean(3, 0);
  PlayedShard played({0}, 4);
  played.push(rule, {1}, {.worker = 0});
  played.part(3);
  played.push(rule, {3}, {.worker = 1});
  EXPECT_THAT(played.answered(), IsEmpty());
  played.part(2);
  EXPECT_THAT(played.answered(), ElementsAre(0, 1)) << "two are left";
  played.push(rule, {5}, {.worker = 1});
  played.part(1);  // its push stays in the round
  EXPECT_THAT(played.answered(), ElementsAre(1));
  EXPECT_EQ(played.values()[0], 2 + 5);
  played.shard.enter(2);
  played.push(rule, {1}, {.worker = 0});
  EXPECT_THAT(played.answered(), IsEmpty());
  played.push(rule, {1}, {.worker = 2});
  EXPECT_THAT(played.answered(), ElementsAre(0, 2));
}

TEST(Quorum, KnowsWhichPushesWait) {
  Rounds seen;
  const NamedRule rule = seen.mean(2, 0);
  PlayedShard played({0}, 3);
  const auto waiting = [&](const std::string& name) {
    std::vector<std::pair<int, std::uint64_t>> found;
    for (const Pushed& one : played.shard.waiting(name)) found.emplace_back(one.meta.worker, one.meta.steps);
    return found;
  };
  played.push(rule, {1}, {.worker = 0, .steps = 5});
  played.push(rule, {1}, {.worker = 0, .steps = 3});  // belongs to the next round
  EXPECT_THAT(waiting("mean"), ElementsAre(std::pair(0, 5u), std::pair(0, 3u)));
  EXPECT_THAT(waiting("add"), IsEmpty());
  played.part(0);
  EXPECT_THAT(waiting("mean"), ElementsAre(std::pair(0, 5u), std::pair(0, 3u)));
  played.push(rule, {1}, {.worker = 1, .steps = 1});
  EXPECT_THAT(waiting("mean"), ElementsAre(std::pair(0, 3u)));
}

TEST(Guests, AreNotWaitedFor) {
  Rounds seen;
  const NamedRule mean = seen.mean(3, 1000), add{"add", standard_rules().at("add")};
  PlayedShard played({0}, 2, 0);
  enum { a, b, guest };
  played.shard.enter(guest, false);
  EXPECT_EQ(played.shard.workers(), 2u);
  for (int i = 0; i < 3; ++i) {
    played.push(add, {100}, {.worker = guest});
    EXPECT_THAT(played.answered(), ElementsAre(guest)) << "it is never ahead";
  }
  played.pull(guest);
  EXPECT_THAT(played.answered(), ElementsAre(guest));
  played.push(mean, {2}, {.worker = a});
  EXPECT_THAT(played.answered(), IsEmpty());
  played.push(mean, {4}, {.worker = b});
  EXPECT_THAT(played.answered(), UnorderedElementsAre(a, b));
  EXPECT_EQ(played.values()[0], 303);
  played.part(a);
  played.part(b);
  EXPECT_EQ(played.shard.workers(), 0u);
  EXPECT_TRUE(played.shard.is_open());
  played.part(guest);
  EXPECT_FALSE(played.shard.is_open());
}

TEST(Quorum, GoesOnFromADump) {
  Rounds seen;
  const NamedRule rule = seen.mean(3, 0);
  PlayedShard played({7}, 3), loaded({0}, 3);
  played.push(rule, {3}, {.worker = 2, .tokens = 1});
  played.push(rule, {6}, {.worker = 2, .tokens = 10});
  const std::vector<Pushed> waiting = played.shard.waiting("mean");
  ASSERT_EQ(waiting.size(), 2u);
  EXPECT_THAT((std::vector{waiting[0].meta.tokens, waiting[1].meta.tokens}), ElementsAre(1u, 10u));
  EXPECT_EQ(elements<double>(waiting[1].data)[0], 6);
  EXPECT_THAT(played.shard.waiting("another"), IsEmpty());
  Serializer writer;
  played.shard.save(writer);
  Deserializer reader(writer.bytes());
  loaded.shard.restore(reader, [&](const std::string&) -> const ServerRule& { return rule.second; });
  EXPECT_TRUE(reader.is_at_end());
  EXPECT_THAT(loaded.values(), ElementsAre(7));
  loaded.push(rule, {3}, {.worker = 0});
  loaded.push(rule, {3}, {.worker = 1});
  EXPECT_THAT(loaded.answered(), ElementsAre(0, 1)) << "and nobody waits for the third";
  EXPECT_EQ(loaded.values()[0], 10);
  EXPECT_EQ(seen.tokens, 1u);
  loaded.push(rule, {0}, {.worker = 0});
  loaded.push(rule, {0}, {.worker = 1});
  EXPECT_EQ(loaded.values()[0], 12);
  EXPECT_EQ(seen.tokens, 11u);
}

TEST(Quorum, IsForWholeShards) {
  Rounds seen;
  PlayedShard played({0, 0}, 2);
  played.push(seen.mean(2, 0), {1}, {.worker = 0}, {1, 1});
  ASSERT_EQ(played.answers.size(), 1u);
  EXPECT_THAT(played.answers[0].text, HasSubstr("a rule with a quorum is for whole buffers"));
}

// Decoupled DiLoCo: pushes have weights tokens^2 / steps. The merge is their mean, or mean length times mean direction.
TEST(Quorum, WeighsByTokens) {
  for (const bool radial : {false, true}) {
    const NamedRule rule{"decoupled",
                         {.apply =
                              [&](const ShardView& shard, std::span<const Pushed> pushed) {
                                double all = 0, radius = 0, direction[2] = {}, mean[2] = {};
                                for (const Pushed& one : pushed) {
                                  const auto tokens = static_cast<double>(one.meta.tokens);
                                  const double w = tokens * tokens / static_cast<double>(one.meta.steps);
                                  const double* const d = elements<double>(one.data);
                                  const double length = std::hypot(d[0], d[1]);
                                  all += w;
                                  radius += w * length;
                                  for (int i = 0; i < 2; ++i) {
                                    mean[i] += w * d[i];
                                    direction[i] += w * d[i] / length;
                                  }
                                }
                                const double length = std::hypot(direction[0], direction[1]);
                                for (int i = 0; i < 2; ++i)
                                  elements<double>(shard.values)[i] =
                                      radial ? radius / all * direction[i] / length : mean[i] / all;
                              },
                          .quorum = 2}};
    PlayedShard played({0, 0}, 2);
    played.push(rule, {0, 2}, {.worker = 1, .tokens = 300, .steps = 30});
    played.push(rule, {1, 0}, {.worker = 0, .tokens = 100, .steps = 10});
    EXPECT_NEAR(played.values()[0], radial ? 0.5533985906 : 0.25, 1e-10);
    EXPECT_NEAR(played.values()[1], radial ? 1.6601957716 : 1.5, 1e-10);
  }
}

const NamedRule& add() {
  static const NamedRule rule{"add", standard_rules().at("add")};
  return rule;
}

TEST(Staleness, HoldsTheRepliesOfWhoIsAhead) {
  PlayedShard played({0}, 2, 1);
  const auto push = [&](int worker) { played.push(add(), {1}, {.worker = worker}); };
  push(0);
  EXPECT_THAT(played.answered(), ElementsAre(0)) << "one ahead";
  push(0);
  EXPECT_THAT(played.answered(), IsEmpty()) << "two ahead";
  played.pull(0);
  EXPECT_THAT(played.answered(), IsEmpty());
  played.pull(1);
  EXPECT_THAT(played.answered(), ElementsAre(1));
  EXPECT_EQ(played.values()[0], 2) << "what is pushed takes effect at once";
  push(1);
  ASSERT_EQ(played.answers.size(), 3u);
  EXPECT_EQ(played.answers[0].worker, 1);
  EXPECT_THAT(numbers(played.answers[1].values), ElementsAre(3)) << "the values as they are when the reply goes";
  EXPECT_EQ(played.answers[1].version, 3u);
  EXPECT_EQ(played.answers[1].sequence + 1, played.answers[2].sequence) << "the pull after the push";
}

TEST(Staleness, OfNothingIsLockstep) {
  PlayedShard played({0}, 3, 0);
  for (int round = 1; round <= 3; ++round) {
    for (const int worker : {2, 0}) played.push(add(), {1}, {.worker = worker});
    EXPECT_THAT(played.answered(), IsEmpty());
    played.push(add(), {1}, {.worker = 1});
    for (const Answer& one : played.answers) EXPECT_THAT(numbers(one.values), ElementsAre(3 * round));
    EXPECT_THAT(played.answered(), UnorderedElementsAre(0, 1, 2));
  }
}

TEST(Staleness, ThoseWhoLeaveHoldNobody) {
  PlayedShard played({0}, 2, 0);
  played.push(add(), {1}, {.worker = 0});
  EXPECT_THAT(played.answered(), IsEmpty());
  played.part(1);
  EXPECT_THAT(played.answered(), ElementsAre(0));
  for (int i = 0; i < 5; ++i) played.push(add(), {1}, {.worker = 0});
  EXPECT_THAT(played.answered(), ElementsAre(0, 0, 0, 0, 0));
  played.shard.enter(1);  // starts with the slowest worker's number of pushes
  played.push(add(), {1}, {.worker = 1});
  EXPECT_THAT(played.answered(), IsEmpty());
  played.push(add(), {1}, {.worker = 0});
  EXPECT_THAT(played.answered(), UnorderedElementsAre(0, 1));
}

TEST(Staleness, ThoseWhoDieAreNotAnswered) {
  PlayedShard played({0}, 3, 0);
  played.push(add(), {1}, {.worker = 0});
  played.part(0);
  played.push(add(), {1}, {.worker = 1});
  played.push(add(), {1}, {.worker = 2});
  EXPECT_THAT(played.answered(), UnorderedElementsAre(1, 2));
}

}  // namespace
}  // namespace tutti::testing
