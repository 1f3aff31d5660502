// Replacements of ranks in an elastic job: how long they wait, how many there are, and what is said of them.
#include <gtest/gtest.h>

#include "tools/run/claims.hpp"
#include "tools/run/replacements.hpp"
#include "tutti/status.hpp"

namespace tutti::tools {
namespace {

constexpr Deadline begin{};

Deadline after(double seconds) { return begin + duration_of(Seconds(seconds)); }

/// Lets the replacement of the rank start `pause` after `now`. Returns the pause.
double replace(Replacements& all, int rank, double now) {
  const auto pause = all.failed(rank, after(now));
  if (!pause) return -1;
  EXPECT_EQ(all.next(), after(now + pause->count()));
  EXPECT_FALSE(*pause > Seconds(0) && all.take(after(now)));
  const auto start = all.take(after(now + pause->count()));
  EXPECT_TRUE(start && start->rank == rank);
  return pause->count();
}

TEST(Elastic, IsParsed) {
  EXPECT_EQ(parse_elastic("2:4").least, 2);
  EXPECT_EQ(parse_elastic("2:4").most, 4);
  EXPECT_EQ(parse_elastic("3").least, 3);
  EXPECT_EQ(parse_elastic("3").most, 0);
  EXPECT_EQ(parse_elastic("1:1").most, 1);
  for (const char* const bad :
       {"", ":", "0", "0:2", "2:", ":2", "2:0", "4:2", "-1:2", "2:4:6", "x", "1x", "2: 4", "99999999999", "1:2000000"})
    EXPECT_THROW(parse_elastic(bad), Error) << bad;
  try {
    parse_elastic("4:2");
  } catch (const Error& error) {
    EXPECT_NE(std::string(error.what()).find("--elastic 2:4"), std::string::npos) << error.what();
  }
}

TEST(Replacements, AreOffWithoutElastic) {
  Replacements none({}, 4, begin);
  EXPECT_FALSE(none.on());
  EXPECT_FALSE(none.failed(2, after(1)));
  EXPECT_EQ(none.next(), never);
  EXPECT_TRUE(none.summary().empty());
}

TEST(Replacements, WaitTwiceAsLongEachTimeThatOneFailsTooSoon) {
  Replacements all({.least = 1, .most = 2}, 2, begin);
  double now = 0;  // the first process fails at once, and its replacement still starts at once
  for (const double pause : {0, 1, 2, 4, 8, 16, 30, 30}) {
    EXPECT_EQ(replace(all, 1, now), pause);
    now += pause + 0.5;
  }
  EXPECT_EQ(replace(all, 0, now), 0) << "each rank for itself";
  now += 9.5;
  EXPECT_EQ(replace(all, 1, now), 0) << "the last one lived for ten seconds";
  EXPECT_EQ(replace(all, 1, now + 9.9), 1);
}

TEST(Replacements, StartInTheOrderOfTheirTimes) {
  Replacements all({.least = 1, .most = 3}, 3, begin);
  EXPECT_EQ(replace(all, 2, 0), 0);
  all.failed(2, after(0.1));  // it waits for a second
  all.failed(1, after(0.2));
  all.failed(0, after(0.2));
  EXPECT_EQ(all.waiting(), 3);
  const auto first = all.take(after(5)), second = all.take(after(5)), third = all.take(after(5));
  ASSERT_TRUE(first && second && third);
  EXPECT_EQ((std::vector{first->rank, second->rank, third->rank}), (std::vector{0, 1, 2}));
  EXPECT_EQ((std::vector{first->number, second->number, third->number}), (std::vector{2, 3, 4}));
  EXPECT_FALSE(all.take(after(100)));
  EXPECT_EQ(all.summary(), "4 ranks failed and were replaced (rank 2 twice, rank 0 once, rank 1 once)");
}

TEST(Replacements, AreLimited) {
  Replacements all({.least = 1, .most = 4, .restarts = 2}, 4, begin);
  EXPECT_TRUE(all.failed(3, after(1)));
  EXPECT_TRUE(all.failed(1, after(1)));
  const auto none = all.failed(0, after(1));  // although none has started
  EXPECT_FALSE(none);
  EXPECT_EQ(all.consequence(none, true),
            "the others go on, and it is not replaced, because --restarts 2 allows no more");
  EXPECT_TRUE(all.summary().empty());
}

TEST(Replacements, AreDroppedOnceTheJobEnds) {
  Replacements all({.least = 1, .most = 4}, 4, begin);
  all.failed(3, after(1));
  EXPECT_EQ(all.stop(), std::vector{3});
  EXPECT_TRUE(all.stop().empty());
  EXPECT_FALSE(all.take(after(100)));
  EXPECT_FALSE(all.failed(2, after(100)));
  EXPECT_EQ(all.consequence({}, false), "it is not replaced, because the job is ending");
}

TEST(Replacements, SayWhatFollows) {
  const Replacements all({.least = 2, .most = 4}, 4, begin);
  EXPECT_EQ(all.consequence(Seconds(0), true), "the others go on, and a replacement starts now");
  EXPECT_EQ(all.consequence(Seconds(16), true), "the others go on, and a replacement starts in 16 s");
  EXPECT_EQ(all.consequence(Seconds(1), false), "a replacement starts in 1 s");
  EXPECT_EQ(all.consequence({}, false), "it is not replaced");
  EXPECT_TRUE(all.too_few(0).starts_with("no process is left, and --elastic 2:4 needs 2, so the job ends; "));
  EXPECT_TRUE(all.too_few(1).starts_with("only 1 process is left, "));
}

TEST(Replacements, AreSummedUp) {
  Replacements all({.least = 1, .most = 40}, 40, begin);
  replace(all, 5, 0);
  EXPECT_EQ(all.summary(), "1 rank failed and was replaced (rank 5 once)");
  for (int i = 0; i < 2; ++i) replace(all, 5, 100.0 * i + 100);
  EXPECT_EQ(all.summary(), "3 ranks failed and were replaced (rank 5 3 times)");
  for (int rank = 10; rank < 40; ++rank) replace(all, rank, 300);
  EXPECT_TRUE(all.summary().ends_with("rank 24 once, 15 more ranks)")) << all.summary();
}

/// What an agent may report of a rank that the launcher has it start again.
TEST(Replacements, AreReportedByAgentsOnlyWhenAskedFor) {
  Claims claims({{0, 1}}, {{.name = "h", .ranks = {0, 1}}}, 0);
  claims.tell({Say::go, 0, 0, {}});
  EXPECT_THROW(claims.take(0, {Say::unstarted, 0, 127, "gone"}), Error);
  claims.take(0, {Say::started, 0, 17, {}});
  claims.take(0, {Say::output, 0, 0, {}});
  EXPECT_THROW(claims.take(0, {Say::output, 0, 0, "more"}), Error) << "the stream has ended";
  claims.take(0, {Say::ended, 0, 0, {}});
  EXPECT_THROW(claims.take(0, {Say::started, 0, 18, {}}), Error);
  claims.tell({Say::restart, 0, 1, {}});
  EXPECT_THROW(claims.take(0, {Say::ended, 0, 0, {}}), Error) << "it has not started";
  EXPECT_THROW(claims.take(0, {Say::unstarted, 1, 127, "gone"}), Error) << "another rank";
  claims.take(0, {Say::unstarted, 0, 127, "gone"});
  EXPECT_THROW(claims.take(0, {Say::unstarted, 0, 127, "gone"}), Error);
  claims.tell({Say::restart, 0, 2, {}});
  claims.take(0, {Say::started, 0, 18, {}});
  claims.take(0, {Say::output, 0, 0, "a new stream"});
  claims.take(0, {Say::ended, 0, 0, {}});
}

}  // namespace
}  // namespace tutti::tools
