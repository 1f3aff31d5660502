// HalfOpen: connections that have not yet proved that they belong to the job. Throttle: limits log lines about them.
#include "transports/core/half_open.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "transports/core/throttle.hpp"

namespace tutti {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

TEST(HalfOpen, TheOldestGoesFirst) {
  HalfOpen half_open(2, Seconds(60));
  for (HalfOpen::Number i = 1; i <= 66; ++i) EXPECT_EQ(half_open.add(i), std::nullopt);
  EXPECT_EQ(half_open.add(67), 1U);
  half_open.remove(2);
  half_open.remove(2000);
  EXPECT_EQ(half_open.add(68), std::nullopt) << "one has left";
  EXPECT_EQ(half_open.add(69), 3U);
  EXPECT_EQ(half_open.take_oldest(), 4U);
  EXPECT_FALSE(half_open.contains(4));
  EXPECT_TRUE(half_open.contains(5));
}

TEST(HalfOpen, EachHasItsTime) {
  HalfOpen half_open(2, Seconds(60));
  EXPECT_EQ(half_open.next(), never);
  EXPECT_EQ(half_open.take_oldest(), std::nullopt);
  const Deadline before = Clock::now();
  half_open.add(1);
  half_open.add(2);
  EXPECT_GE(half_open.next(), before + std::chrono::seconds(60));
  EXPECT_LE(half_open.next(), Clock::now() + std::chrono::seconds(60));
  EXPECT_THAT(half_open.take_late(Clock::now()), IsEmpty());
  EXPECT_THAT(half_open.take_late(Clock::now() + std::chrono::seconds(61)), ElementsAre(1, 2));
  EXPECT_EQ(half_open.next(), never);
}

TEST(Throttle, FiveLinesPassAndOthersAreCounted) {
  Throttle throttle;
  Deadline now = Clock::now();
  std::vector<std::string> passed;
  const auto say = [&](int from, int to) {
    for (int i = from; i < to; ++i)
      if (const auto line = throttle.pass("line " + std::to_string(i), now)) passed.push_back(*line);
  };
  say(0, 20);
  EXPECT_THAT(passed, ElementsAre("line 0", "line 1", "line 2", "line 3", "line 4"));
  now += std::chrono::seconds(10);
  say(20, 23);
  EXPECT_EQ(passed.size(), 6U) << "one every ten seconds";
  EXPECT_EQ(passed.back(), "line 20 (15 like this were not logged)");
  now += std::chrono::seconds(61);
  say(23, 40);
  EXPECT_EQ(passed.size(), 11U) << "a quiet minute begins anew";
  EXPECT_EQ(passed[6], "line 23 (2 like this were not logged)");
  EXPECT_EQ(passed[7], "line 24");
}

}  // namespace
}  // namespace tutti
