// The order in which the sums of a step's parts (grains) are added.
#include "engine/strategies/grain_tree.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <numeric>

namespace tutti::engine {
namespace {

using ::testing::ElementsAre;

TEST(GrainTree, AddsNeighboursFirst) {
  EXPECT_THAT(grain_tree(1, 1), ElementsAre());
  EXPECT_THAT(grain_tree(4, 4), ElementsAre(Addition{0, 1, 1}, Addition{2, 3, 3}, Addition{0, 2, 3}));
}

TEST(GrainTree, LeavesOutWhatIsNotThere) {
  EXPECT_THAT(grain_tree(4, 3), ElementsAre(Addition{0, 1, 1}, Addition{0, 2, 2}));
  EXPECT_THAT(grain_tree(8, 1), ElementsAre());
  for (std::size_t grains = 1; grains <= 64; grains *= 2)
    for (std::size_t present = 1; present <= grains; ++present) {
      std::vector<std::size_t> sums(grains, 1);
      std::size_t last = 0;
      const auto tree = grain_tree(grains, present);
      EXPECT_EQ(tree.size(), present - 1);
      for (const Addition& each : tree) {
        sums[each.left] += sums[each.right];
        EXPECT_EQ(each.last + 1, each.left + sums[each.left]);                  // the sum covers [left, last]
        EXPECT_EQ(each.right, each.left + std::bit_ceil(sums[each.left]) / 2);  // it begins at a power of two
        EXPECT_GE(each.last, last);
        last = each.last;
      }
      EXPECT_EQ(sums[0], present);
    }
}

// The sum of 1, 2^-53 and 2^-53 depends on the order.
TEST(GrainTree, OrdersASum) {
  const double tiny = 0x1p-53;
  EXPECT_EQ(tree_sum(std::vector{1.0, tiny, tiny, 0.0}, 3), 1.0);
  EXPECT_EQ(tree_sum(std::vector{tiny, tiny, 1.0, 0.0}, 3), 1.0 + 2 * tiny);
  EXPECT_EQ(tree_sum(std::vector{1.0, 2.0, 3.0, 7.0}, 3), 6.0);
}

}  // namespace
}  // namespace tutti::engine
