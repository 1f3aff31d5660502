// Ranks die, and the others agree on who is left and go on in a smaller communicator.
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <random>
#include <thread>

#include "tests/support/joined.hpp"
#include "tests/support/processes.hpp"
#include "tutti.hpp"

namespace tutti::testing {
namespace {

void expect_killed(Fleet& fleet, int size, const std::vector<int>& victims) {
  for (int rank = 0; rank < size; ++rank)
    EXPECT_EQ(fleet.answer(rank), std::ranges::count(victims, rank) > 0 ? "killed by signal 9" : "") << "rank " << rank;
}

/// Calls in a communicator of which every rank knows the world ranks; returns what is wrong.
std::string use(Communicator& group, const std::vector<int>& members, int rounds) {
  if (group.size() != static_cast<int>(members.size())) return "size " + std::to_string(group.size()) + "; ";
  for (int round = 1; round <= rounds; ++round) {
    std::int64_t sum = 0;
    for (std::size_t i = 0; i < members.size(); ++i) {
      if (group.world_rank(static_cast<int>(i)) != members[i]) return "another member; ";
      sum += members[i] * round;
    }
    std::vector<std::int64_t> data(static_cast<std::size_t>(round * round * 300),
                                   group.world_rank(group.rank()) * round);
    group.allreduce(data).wait();
    if (data.front() != sum || data.back() != sum) return "a wrong sum; ";
    std::array<int, 1> in{}, out{group.rank()};
    group.shift(out, in).wait();
    if (in[0] != (group.rank() + group.size() - 1) % group.size()) return "a wrong message; ";
  }
  return "";
}

/// A barrier after which some ranks die, maybe before this one is through.
void meet(Communicator& group) {
  try {
    group.barrier().wait();
  } catch (const Error& error) {
    if (error.code() != Code::peer_lost) throw;
  }
}

/// Calls until the communicator fails by a lost rank; returns what is wrong.
std::string use_until_lost(Communicator& group) {
  try {
    std::vector<float> data(5000, 1.0f);
    for (;;) group.allreduce(data, max).wait();
  } catch (const Error& error) {
    return error.code() == Code::peer_lost ? "" : std::string(error.what()) + "; ";
  }
}

std::vector<int> without(int size, const std::vector<int>& victims) {
  std::vector<int> members;
  for (int rank = 0; rank < size; ++rank)
    if (std::ranges::count(victims, rank) == 0) members.push_back(rank);
  return members;
}

/// How many kills tests/kills asks for.
int kills_wanted(int otherwise) {
  const char* const wanted = std::getenv("TUTTI_TEST_KILLS");
  return wanted != nullptr ? std::atoi(wanted) : otherwise;
}

double now() { return Seconds(Clock::now().time_since_epoch()).count(); }

class Shrink : public ::testing::TestWithParam<const char*> {
 protected:
  Communicator join(int rank, int size) const {
    return Communicator::connect(bootstrap_in(folder_.path(), rank, size, GetParam()));
  }
  TemporaryFolder folder_;
};

TEST_P(Shrink, GoesOnWithoutAnyOneRank) {
  constexpr int size = 4;
  for (int victim = 0; victim < size; ++victim) {
    const TemporaryFolder folder;
    Fleet fleet(size, [&](int rank) -> std::string {
      Communicator world = Communicator::connect(bootstrap_in(folder.path(), rank, size, GetParam()));
      meet(world);
      if (rank == victim) ::raise(SIGKILL);
      std::string wrong = use_until_lost(world);
      Communicator left = world.shrink();
      return wrong + use(left, without(size, {victim}), 20);
    });
    expect_killed(fleet, size, {victim});
  }
}

// A rank that ends without a failure, and agrees on nothing, does not hold up the others.
TEST_P(Shrink, GoesOnWithoutARankThatEndsNormally) {
  constexpr int size = 4;
  for (const int leaver : {0, 3}) {
    const TemporaryFolder folder;
    Fleet fleet(size, [&](int rank) -> std::string {
      Communicator world = Communicator::connect(bootstrap_in(folder.path(), rank, size, GetParam()));
      world.barrier().wait();
      if (rank == leaver) return "";
      if (world.agree(5).members != without(size, {leaver})) return "another list of members; ";
      Communicator left = world.shrink();
      return use(left, without(size, {leaver}), 3);
    });
    fleet.expect_success();
  }
}

// One after the other, until one is left, each time in the communicator that was shrunk before.
TEST_P(Shrink, ShrinksAgainAndAgain) {
  constexpr int size = 5;
  constexpr std::array order{2, 0, 4, 1};
  Fleet fleet(size, [&](int rank) -> std::string {
    Communicator group = join(rank, size);
    std::string wrong;
    std::vector<int> gone;
    for (const int victim : order) {
      meet(group);
      if (rank == victim) ::raise(SIGKILL);
      gone.push_back(victim);
      if (group.size() > 1) wrong += use_until_lost(group);
      group = group.shrink();
      wrong += use(group, without(size, gone), 5);
    }
    return wrong;
  });
  expect_killed(fleet, size, {order.begin(), order.end()});
}

// Two ranks die within a few ms: before, during or after the shrink that follows the first death. The ranks that are
// left shrink as often as it takes.
TEST_P(Shrink, OutlivesASecondDeathMeanwhile) {
  constexpr int size = 5;
  std::mt19937 random(7);
  const int rounds = kills_wanted(12);
  for (int round = 0; round < rounds; ++round) {
    const int first = static_cast<int>(random() % size), second = static_cast<int>((first + 1 + random() % 4) % size);
    const auto later = std::chrono::microseconds(random() % 3 == 0 ? 0 : random() % 30000);
    const TemporaryFolder folder;
    Fleet fleet(size, [&](int rank) -> std::string {
      Communicator group = Communicator::connect(bootstrap_in(folder.path(), rank, size, GetParam()));
      meet(group);
      if (rank == first) ::raise(SIGKILL);
      std::thread killer;
      if (rank == second)
        killer = std::thread([later] {
          std::this_thread::sleep_for(later);
          ::kill(::getpid(), SIGKILL);
        });
      std::string wrong;
      while (group.size() > size - 2) {
        wrong += use_until_lost(group);
        group = group.shrink();
      }
      return wrong + use(group, without(size, {first, second}), 5);
    });
    expect_killed(fleet, size, {first, second});
  }
}

// Prints how long it takes from a kill to the end of the first collective of the smaller communicator, on the rank that
// is the last to have it.
TEST_P(Shrink, MakesItsFirstCallSoonAfterAKill) {
  constexpr int size = 4;
  std::vector<double> all;
  for (int kill = 0; kill < kills_wanted(5); ++kill) {
    const int victim = kill % size;
    const TemporaryFolder folder;
    auto* const times =
        static_cast<double*>(::mmap(nullptr, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0));
    Fleet fleet(size, [&](int rank) -> std::string {
      Communicator world = Communicator::connect(bootstrap_in(folder.path(), rank, size, GetParam()));
      meet(world);
      if (rank == victim) {
        std::this_thread::sleep_for(std::chrono::milliseconds(20));
        times[size] = now();
        ::raise(SIGKILL);
      }
      const std::string wrong = use_until_lost(world);
      Communicator left = world.shrink();
      const int sum = left.allreduce(1).wait();
      times[rank] = now();
      return sum == size - 1 ? wrong : "a wrong sum";
    });
    expect_killed(fleet, size, {victim});
    all.push_back(1e3 * (*std::max_element(times, times + size) - times[size]));
    ::munmap(times, 4096);
  }
  std::ranges::sort(all);
  std::printf("%s: %zu kills; first collective of the others after %.1f ms (median), %.1f ms (worst)\n", GetParam(),
              all.size(), all[all.size() / 2], all.back());
}

TEST_P(Shrink, AgreesOnTheAndOfAllBits) {
  constexpr int size = 3;
  Fleet fleet(size, [&](int rank) -> std::string {
    Communicator world = join(rank, size);
    for (std::uint64_t round = 0; round < 50; ++round) {
      const Agreed agreed = world.agree(~(std::uint64_t{1} << ((static_cast<unsigned>(rank) * 20 + round) % 64)));
      const auto bit = [&](std::uint64_t of) { return std::uint64_t{1} << ((of * 20 + round) % 64); };
      if (agreed.bits != ~(bit(0) | bit(1) | bit(2))) return "wrong bits";
      if (agreed.members != std::vector{0, 1, 2}) return "wrong members";
    }
    Communicator again = world.shrink();
    const std::string wrong = use(again, {0, 1, 2}, 3);
    return wrong + use(world, {0, 1, 2}, 3);
  });
  fleet.expect_success();
}

// The communicators that the dead rank was no member of go on, and can be shrunk, too.
TEST_P(Shrink, ShrinksAGroup) {
  constexpr int size = 4, victim = 1;
  Fleet fleet(size, [&](int rank) -> std::string {
    Communicator world = join(rank, size);
    Communicator half = *world.split(rank % 2);
    meet(world);
    if (rank == victim) ::raise(SIGKILL);
    if (rank % 2 == 0) return use(half, {0, 2}, 10);
    std::string wrong = use_until_lost(half);
    Communicator alone = half.shrink();
    return wrong + use(alone, {3}, 3);
  });
  expect_killed(fleet, size, {victim});
}

// Rank 4 is listed and dies. Ranks 1 and 3 are not listed: rank 1 dies, and rank 3 lives and does not take part.
TEST_P(Shrink, ShrinksToListedRanks) {
  constexpr int size = 6;
  const std::vector<int> victims{1, 4}, listed{5, 0, 4, 2};
  Fleet fleet(size, [&](int rank) -> std::string {
    Communicator world = join(rank, size);
    meet(world);
    if (std::ranges::count(victims, rank) > 0) ::raise(SIGKILL);
    std::string wrong = use_until_lost(world);
    if (rank == 3) return wrong;
    for (const int count : {1, 2}) {
      Communicator left = world.shrink(listed, "listed");
      wrong += use(left, {5, 0, 2}, count);
    }
    return wrong;
  });
  expect_killed(fleet, size, victims);
}

TEST_P(Shrink, NamesWhoDoesNotAgreeAndGoesOnLater) {
  constexpr int size = 3;
  Fleet fleet(size, [&](int rank) -> std::string {
    Bootstrap bootstrap = bootstrap_in(folder_.path(), rank, size, GetParam());
    bootstrap.settings.timeout = 1;
    Communicator world = Communicator::connect(bootstrap);
    if (rank == 2) {
      std::this_thread::sleep_for(std::chrono::milliseconds(2500));
      return world.agree(6).bits == 4 ? "" : "wrong bits";
    }
    std::string said;
    for (int tries = 0; tries < 20; ++tries) try {
        const Agreed agreed = world.agree(tries == 0 ? 12 : 0);
        const std::string who = rank == 0 ? "rank 2 has" : "rank 0 has";
        if (said.find(who) == std::string::npos) return "the error was: " + said;
        return agreed.bits == 4 && agreed.members.size() == 3 ? "" : "wrong bits or members";
      } catch (const Error& error) {
        if (error.code() != Code::timeout) throw;
        said = error.what();
      }
    return "no agreement";
  });
  fleet.expect_success();
}

INSTANTIATE_TEST_SUITE_P(Everywhere, Shrink, ::testing::Values("shm", "tcp", "routed"),
                         [](const auto& one) { return std::string(one.param); });

}  // namespace
}  // namespace tutti::testing
