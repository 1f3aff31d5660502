// A rank dies: its communicators fail, and communicators without that rank still work.
#include <gtest/gtest.h>
#include <signal.h>

#include <array>

#include "tests/support/joined.hpp"
#include "tests/support/processes.hpp"
#include "tutti.hpp"

namespace tutti::testing {
namespace {

constexpr int size = 4, victim = 3;

class GoingOn : public ::testing::TestWithParam<const char*> {
 protected:
  Communicator join(int rank) const {
    return Communicator::connect(bootstrap_in(folder_.path(), rank, size, GetParam()));
  }
  TemporaryFolder folder_;
};

std::string expect_lost(const Work& work, const std::string& what) {
  try {
    work.wait();
  } catch (const Error& error) {
    return error.code() == Code::peer_lost && error.culprit() == victim ? "" : what + ": " + error.what();
  }
  return what + " has ended well; ";
}

std::string use(Communicator& group, int rounds) {
  for (int round = 1; round <= rounds; ++round) {
    std::vector<std::int64_t> data(static_cast<std::size_t>(round * round * 10), group.rank() + round);
    group.allreduce(data).wait();
    const std::int64_t sum = 3 * round + 3;
    if (data.front() != sum || data.back() != sum) return "a wrong sum; ";
    std::array<int, 1> in{}, out{group.rank()};
    group.shift(out, in).wait();
    if (in[0] != (group.rank() + 2) % 3) return "a wrong message; ";
  }
  return "";
}

TEST_P(GoingOn, WithoutTheRankThatDied) {
  Fleet fleet(size, [&](int rank) -> std::string {
    Communicator world = join(rank);
    const std::array<int, 3> others{0, 1, 2};
    auto before = world.subgroup(others);
    int any = 0, named = 0;
    const Work from_any = world.recv_any(Buffer(&any, 1, DType::i32), 5, {.timeout = no_deadline});
    const Work from_victim = world.recv(Buffer(&named, 1, DType::i32), victim, 6, {.timeout = no_deadline});
    world.barrier().wait();
    if (rank == victim) ::raise(SIGKILL);
    std::string wrong = use(*before, 20);  // possibly before the death is known
    wrong +=
        expect_lost(from_any, "recv_any") + expect_lost(from_victim, "recv") + expect_lost(world.barrier(), "barrier");
    wrong += use(*before, 20);
    Communicator after = before->group(others, "after the death"), again = before->dup();
    return wrong + use(after, 20) + use(again, 20);
  });
  for (int rank = 0; rank < size; ++rank)
    EXPECT_EQ(fleet.answer(rank), rank == victim ? "killed by signal 9" : "") << "rank " << rank;
}

INSTANTIATE_TEST_SUITE_P(Everywhere, GoingOn, ::testing::Values("shm", "tcp", "routed"),
                         [](const auto& one) { return std::string(one.param); });

}  // namespace
}  // namespace tutti::testing
