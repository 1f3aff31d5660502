// Lists of ranks, as text in messages.
#include "transports/core/ranges.hpp"

#include <gtest/gtest.h>

#include <vector>

namespace tutti::testing {
namespace {

TEST(Ranges, ConsecutiveNumbersBecomeOne) {
  const auto text = [](std::vector<int> numbers) { return ranges(numbers); };
  EXPECT_EQ(text({}), "");
  EXPECT_EQ(text({3}), "3");
  EXPECT_EQ(text({3, 4}), "3, 4");
  EXPECT_EQ(text({3, 4, 5}), "3-5");
  EXPECT_EQ(text({0, 2, 4}), "0, 2, 4");
  EXPECT_EQ(text({0, 1, 2, 5, 7, 8}), "0-2, 5, 7, 8");
  EXPECT_EQ(ranges(std::vector{0, 1, 3}, ",", 2), "0-1,3");
  std::vector<int> many;
  for (int rank = 1; rank < 128; ++rank) many.push_back(rank);
  EXPECT_EQ(ranks_text(many), "ranks 1-127");
  EXPECT_EQ(ranks_text(std::vector{7}), "rank 7");
}

}  // namespace
}  // namespace tutti::testing
