// When shm stages with non-temporal stores: by the measured cost of both kinds of stores.
#include "transports/shm/staging.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

namespace tutti::shm {
namespace {

constexpr double near = 0.03, far = 0.45, streamed = 0.03;  // nanoseconds per byte, as measured on two servers

// Returns how many of the next `pieces` are written with non-temporal stores.
int streamed_of(StagingWay& way, int pieces, double ordinary) {
  int count = 0;
  for (int i = 0; i < pieces; ++i) {
    const StagingWay::Piece piece = way.next();
    count += piece.way == StagingWay::streaming;
    if (piece.timed) way.took(piece.way, piece.way == StagingWay::streaming ? streamed : ordinary);
  }
  return count;
}

TEST(ShmStaging, IsOrdinaryWhereThatIsQuick) {
  StagingWay way;
  EXPECT_EQ(streamed_of(way, 1000, near), 0);
  EXPECT_EQ(streamed_of(way, 1000, StagingWay::readers_loss), 0) << "no more than the reader would lose";
}

TEST(ShmStaging, GoesPastTheCachesWhereLinesAreSlowToTakeBack) {
  StagingWay way;
  EXPECT_GE(streamed_of(way, 100, far), 100 - 5 * StagingWay::often);
  EXPECT_GE(streamed_of(way, 1280, far), 1280 - 1280 / (2 * StagingWay::rarely));
}

TEST(ShmStaging, ComesBackWhenTheCoresAreNearAgain) {
  StagingWay way;
  streamed_of(way, 100, far);
  EXPECT_LE(streamed_of(way, 1000, near), 2 * StagingWay::rarely);
}

TEST(ShmStaging, OnePieceThatTookLongSaysNothing) {
  StagingWay way;
  streamed_of(way, 1, 50);  // as slow as with page faults
  EXPECT_EQ(streamed_of(way, 100, near), 0);
  streamed_of(way, StagingWay::often, 500);  // as slow as with preemption
  EXPECT_EQ(streamed_of(way, 100, near), 0);
}

TEST(ShmStaging, CopiesEveryByteEitherWay) {
  Staging staging;
  std::vector<std::byte> from(10'007), into(from.size());
  for (int i = 0; i < 300; ++i) {
    std::ranges::fill(from, std::byte(i));
    staging.copy(into.data(), from.data(), from.size());
    ASSERT_EQ(into, from) << i;
  }
}

}  // namespace
}  // namespace tutti::shm
