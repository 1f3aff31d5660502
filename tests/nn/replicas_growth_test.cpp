// The cost of comparing replicas: a rank sends the same number of bytes on any number of ranks.
#include <ATen/ATen.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "nn/costs.hpp"
#include "nn/synchronize.hpp"
#include "tests/support/caught.hpp"
#include "tests/support/counted_calls.hpp"
#include "tests/support/worlds.hpp"

namespace tutti::nn {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using tutti::testing::CallCount;
using tutti::testing::calls_of_this_rank;
using tutti::testing::caught;

std::vector<NamedTensor> tensors(std::size_t count) {
  std::vector<NamedTensor> found;
  for (std::size_t i = 0; i < count; ++i)
    found.emplace_back("tensor" + std::to_string(i), at::full({3}, static_cast<double>(i)));
  return found;
}

void on_ranks(int size, const std::function<void(Communicator&)>& body) {
  tutti::testing::run_ranks(size, tutti::testing::test_settings("inproc"), body);
}

TEST(CheckReplicas, TakesTwoAllreducesOfSixteenBytesATensorOnAnyNumberOfRanks) {
  for (const int size : {2, 5, 16, 48})
    for (const std::size_t count : {std::size_t{1}, std::size_t{40}})
      on_ranks(size, [count](Communicator& world) {
        const std::vector<NamedTensor> state = tensors(count);
        const CallCount before = calls_of_this_rank;
        check_replicas(state, {}, world);
        const CallCount used = calls_of_this_rank - before;
        EXPECT_EQ(used.calls, 2U);
        EXPECT_EQ(used.reductions, 2U);
        EXPECT_EQ(used.given, replica_check_bytes(count));
        EXPECT_EQ(used.taken, replica_check_bytes(count));
      });
}

TEST(CheckReplicas, NamesAllRanksThatDifferByABitForEach) {
  on_ranks(20, [](Communicator& world) {
    const std::vector<NamedTensor> state = tensors(40);
    if (world.rank() == 3 || world.rank() >= 17) state[7].second[1].add_(1);
    if (world.rank() == 5) state[11].second[1].add_(1);
    const CallCount before = calls_of_this_rank;
    EXPECT_THAT(caught([&] { check_replicas(state, {}, world); }).what(),
                AllOf(HasSubstr("'tensor7' on ranks 3, 17-19 is not"), HasSubstr("synchronize_parameters")));
    EXPECT_EQ((calls_of_this_rank - before).taken, 16U + 16 * 40 + 8 + 3);
    EXPECT_THAT(caught([&] { check_replicas(tensors(world.rank() < 18 ? 4 : 6), {}, world); }).what(),
                HasSubstr("rank 0 has 4 parameters and buffers to compare, rank 18 has 6"));
  });
}

}  // namespace
}  // namespace tutti::nn
