// Ranks that leave, normally or not: the remaining ranks can still sleep, and still learn of deaths.
#include <gtest/gtest.h>
#include <signal.h>

#include <array>
#include <atomic>
#include <chrono>
#include <optional>
#include <thread>

#include "tests/support/asleep.hpp"
#include "tests/support/joined.hpp"
#include "tests/support/processes.hpp"
#include "tests/support/worlds.hpp"
#include "tutti.hpp"

namespace tutti::testing {
namespace {

using namespace std::chrono_literals;

constexpr int leaver = 1;

struct Scene {
  std::string transport;  // "routed": ranks 0 and 1 share a host, rank 2 is on another one
  std::string folder;
};

Communicator join(const Scene& scene, int rank) {
  Bootstrap bootstrap = bootstrap_in(scene.folder, rank, 3);
  if (scene.transport == "routed")
    bootstrap.settings.host_id = rank == 2 ? "far" : "near";
  else
    bootstrap.settings.transport = scene.transport;
  return Communicator::connect(bootstrap);
}

// Two ranks remain. First no rank waits for anything, then rank 0 waits for rank 2.
std::string stay(Communicator& both) {
  std::this_thread::sleep_for(200ms);  // until the departure is handled
  std::string said = expect_asleep("doing nothing", 0.1, [] { std::this_thread::sleep_for(watched_wait); });
  both.barrier().wait();
  std::vector<int> word(1, 7);
  said += expect_asleep("waiting", 0.1, [&] {
    if (both.rank() == 1) {
      std::this_thread::sleep_for(watched_wait);
      both.send(word, 0).wait();
    } else {
      both.recv(word, 1).wait();
    }
  });
  both.barrier().wait();
  return said;
}

class Leaving : public ::testing::TestWithParam<const char*> {
 protected:
  Scene scene() const { return {GetParam(), folder_.path()}; }
  TemporaryFolder folder_;
};

TEST_P(Leaving, AGoodbyeLeavesTheOthersAsleep) {
  Fleet fleet(3, [scene = scene()](int rank) -> std::string {
    Communicator world = join(scene, rank);
    std::optional<Communicator> both = world.split(rank == leaver ? -1 : 0);
    std::vector<float> data(100'000, 1.0f);
    world.allreduce(data).wait();
    world.alltoall(std::vector<float>(3, 1.0f), std::span(data).first(3)).wait();  // connects all pairs
    return rank == leaver ? "" : stay(*both);
  });
  fleet.expect_success();
}

TEST_P(Leaving, ADeathLeavesTheOthersAsleep) {
  Fleet fleet(3, [scene = scene()](int rank) -> std::string {
    Communicator world = join(scene, rank);
    std::optional<Communicator> both = world.split(rank == leaver ? -1 : 0);
    std::vector<float> data(16 << 20, 1.0f);
    world.barrier().wait();
    make_file_store(scene.folder)->set("going/" + std::to_string(rank), "1");
    try {
      while (true) world.allreduce(data, max).wait();
    } catch (const Error& error) {
      if (error.culprit() != leaver) return error.what();
    }
    return stay(*both);
  });
  const auto store = make_file_store(folder_.path());
  for (int rank = 0; rank < 3; ++rank) store->wait("going/" + std::to_string(rank), deadline_in(50s));
  std::this_thread::sleep_for(50ms);
  fleet.kill(leaver);
  EXPECT_EQ(fleet.answer(0), "");
  EXPECT_EQ(fleet.answer(2), "");
}

// No rank ever writes to the dead rank, so only a receive that waits for it can detect the death.
TEST_P(Leaving, ADeadRankThatNobodyTalkedToIsNoticedByARecv) {
  Fleet fleet(3, [scene = scene()](int rank) -> std::string {
    Communicator world = join(scene, rank);
    const auto store = make_file_store(scene.folder);
    store->set("joined/" + std::to_string(rank), "1");
    if (rank == leaver) std::this_thread::sleep_for(50s);
    store->wait("killed", deadline_in(50s));
    std::vector<int> word(1);
    try {
      world.recv(word, leaver).wait();
    } catch (const Error& error) {
      return error.code() == Code::peer_lost && error.culprit() == leaver ? "" : error.what();
    }
    return "something was received from the dead";
  });
  const auto store = make_file_store(folder_.path());
  for (int rank = 0; rank < 3; ++rank) store->wait("joined/" + std::to_string(rank), deadline_in(50s));
  fleet.kill(leaver);
  EXPECT_EQ(fleet.answer(leaver), "killed by signal 9");
  store->set("killed", "1");
  EXPECT_EQ(fleet.answer(0), "");
  EXPECT_EQ(fleet.answer(2), "");
}

// Rank 0 has done its part and left, so that it does not answer, and neither does the stopped rank.
TEST_P(Leaving, ADeadlineNamesTheStoppedRankAndNotTheOneThatLeft) {
  Fleet fleet(3, [scene = scene()](int rank) -> std::string {
    Communicator world = join(scene, rank);
    std::vector<float> mine(10), all(30);
    world.barrier().wait();
    if (rank == leaver) ::raise(SIGSTOP);
    try {
      world.gather(mine, all, 2, {.timeout = 1}).wait();
    } catch (const Error& error) {
      return error.code() == Code::timeout ? std::to_string(error.culprit()) : error.what();
    }
    return "";
  });
  EXPECT_EQ(fleet.answer(0), "");
  EXPECT_EQ(fleet.answer(2), std::to_string(leaver));
}

// Over tcp rank 0 has no link to rank 1 when that one fails and leaves, so only the store can say why.
TEST(LeavingUnseen, NamesTheRankWhoseLossWasTheReason) {
  std::array<std::atomic<int>, 3> culprits{-1, -1, -1};
  run_ranks(3, test_settings("tcp"), [&](Communicator& world) {
    std::vector<int> word(1, 7);
    if (world.rank() == 1) world.recv(word, 2).wait();
    if (world.rank() == 2) return world.send(word, 1).wait();
    try {
      world.recv(word, world.rank() + 1, 1).wait();
    } catch (const Error& error) {
      culprits[static_cast<std::size_t>(world.rank())] = error.culprit();
    }
  });
  EXPECT_EQ(culprits[1], 2);
  EXPECT_EQ(culprits[0], 2) << "rank 1 has only followed";
}

INSTANTIATE_TEST_SUITE_P(Everywhere, Leaving, ::testing::Values("shm", "tcp", "routed"),
                         [](const auto& param) { return std::string(param.param); });

}  // namespace
}  // namespace tutti::testing
