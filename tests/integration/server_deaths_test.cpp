// Deaths of a parameter server's workers and servers: other workers go on after a worker's death, and get an error
// after a server's. Also: a worker that is stopped is given up, and an idle server takes no CPU time.
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <chrono>
#include <thread>

#include "tests/support/joined.hpp"
#include "tests/support/processes.hpp"
#include "tests/support/thinned.hpp"
#include "tutti.hpp"
#include "tutti/parameter_server.hpp"

namespace tutti::testing {
namespace {

constexpr int size = 4;

/// A counter in memory that is shared with child processes.
std::atomic<int>* shared_number() {
  void* const page =
      ::mmap(nullptr, sizeof(std::atomic<int>), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  return new (page) std::atomic<int>(0);
}

class ServerDeaths : public ::testing::TestWithParam<const char*> {
 protected:
  Communicator join(int rank) const {
    return Communicator::connect(bootstrap_in(folder_.path(), rank, size, GetParam()));
  }
  TemporaryFolder folder_;
};

// Rank 3 dies with a large push in flight. Neither the staleness bound nor the quorum wait for it afterwards.
TEST_P(ServerDeaths, OfAWorkerIsItsOwnAffair) {
  const ServerRule all{.apply =
                           [](const ShardView& shard, std::span<const Pushed> pushed) {
                             shard.scalars[0] += static_cast<double>(pushed.size());
                             reinterpret_cast<float*>(shard.values.data)[0] = static_cast<float>(shard.scalars[0]);
                           },
                       .scalars = 1,
                       .quorum = 3};
  Fleet fleet(size, [&](int rank) -> std::string {
    Communicator world = join(rank);
    ParameterServer server(world, {.servers = {0, 1}, .workers = {1, 2, 3}, .rules = {{"all", all}}});
    if (rank == 0) {
      server.serve();
      return "";
    }
    Parameters lockstep = server.open("lockstep", 500'000, DType::f32, {.staleness = 0});
    Parameters together = server.open("together", 2, DType::f32);
    Communicator workers = world.group(std::array<int, 3>{1, 2, 3}, "workers");
    workers.barrier().wait();  // all workers have opened both buffers
    std::vector<float> ones(500'000, 1), got(500'000), few(2), some(2);
    for (int round = 0; round < 3; ++round) {
      lockstep.push_pull("add", ones, got).wait();
      together.push_pull("all", few, some).wait();
      if (some[0] != static_cast<float>(3 * round + 3)) return "a round of three";
    }
    if (rank == 3) {
      const Request under_way = lockstep.push("add", ones);
      ::raise(SIGKILL);
    }
    for (int round = 0; round < 20; ++round) {
      lockstep.push_pull("add", ones, got).wait();
      together.push_pull("all", few, some).wait();
      if (some[0] != static_cast<float>(9 + 2 * round + 2)) return "a round of two: " + std::to_string(some[0]);
    }
    lockstep.pull(got).wait();
    const float least = 9 + 40;  // 9 + 40; each shard may include rank 3's last push
    for (const float one : got)
      if (one < least - 1 || one > least + 1) return "the sum: " + std::to_string(one);
    return "";
  });
  for (int rank = 0; rank < size; ++rank)
    EXPECT_EQ(fleet.answer(rank), rank == 3 ? "killed by signal 9" : "") << "rank " << rank;
}

TEST_P(ServerDeaths, OfAServerIsToldToItsWorkers) {
  Fleet fleet(size, [&](int rank) -> std::string {
    Communicator world = join(rank);
    ParameterServer server(world, {.servers = {0}, .workers = {1, 2, 3}});
    if (rank == 0) {
      std::this_thread::sleep_for(std::chrono::milliseconds(200));
      ::raise(SIGKILL);
    }
    Communicator workers = world.group(std::array<int, 3>{1, 2, 3}, "workers");
    Parameters w = server.open("w", 1000, DType::f32);
    std::vector<float> got(1000);
    try {
      while (true) w.push_pull("add", got, got).wait();
    } catch (const Error& error) {
      const std::string what = error.what();
      if (error.code() != Code::peer_lost || error.culprit() != 0) return what;
      if (what.find("parameter server: push_pull 'add' of 'w' at rank 0: ") != 0) return what;
    }
    workers.barrier().wait();  // the workers can still communicate
    return "";
  });
  for (int rank = 0; rank < size; ++rank)
    EXPECT_EQ(fleet.answer(rank), rank == 0 ? "killed by signal 9" : "") << "rank " << rank;
}

// Rank 3 is stopped and given up: the round completes without it, and it gets an error when it runs again. Rank 1 makes
// no calls for longer than Options::silence, and is kept because of its heartbeats.
TEST_P(ServerDeaths, AStoppedWorkerIsGivenUp) {
  std::atomic<int>* const parted = shared_number();
  const ServerRule all{.apply =
                           [](const ShardView& shard, std::span<const Pushed> pushed) {
                             reinterpret_cast<double*>(shard.values.data)[0] = static_cast<double>(pushed.size());
                           },
                       .quorum = 3,
                       .parted =
                           [&](int worker, Parting how, std::uint64_t /*waiting*/) {
                             if (worker == 3 && how == Parting::silent) ++*parted;
                           }};
  Fleet fleet(size, [&](int rank) -> std::string {
    Communicator world = join(rank);
    ParameterServer server(world, {.servers = {0}, .workers = {1, 2, 3}, .rules = {{"all", all}}, .silence = 1});
    if (rank == 0) {
      server.serve();
      return "";
    }
    Parameters pids = server.open("pids", 1, DType::f64), w = server.open("w", 1, DType::f64);
    double pid[] = {static_cast<double>(::getpid())}, value[] = {0};
    if (rank == 3) pids.push("add", pid).wait();
    const Communicator workers = world.group(std::array<int, 3>{1, 2, 3}, "workers");
    Communicator(workers).barrier().wait();
    if (rank == 3) {
      ::raise(SIGSTOP);
      try {
        while (true) pids.pull(pid).wait();
      } catch (const Error& error) {
        const std::string what = error.what();
        return what.find("rank 3 was not heard from for 1 s and was given up") != what.npos ? "" : what;
      }
    }
    if (rank == 1) std::this_thread::sleep_for(std::chrono::milliseconds(1500));
    w.push_pull("all", value, value).wait();
    if (value[0] != 2) return "a round of " + std::to_string(value[0]);
    pids.pull(pid).wait();
    if (rank == 2) ::kill(static_cast<pid_t>(pid[0]), SIGCONT);
    return "";
  });
  for (int rank = 0; rank < size; ++rank) EXPECT_EQ(fleet.answer(rank), "") << "rank " << rank;
  EXPECT_EQ(*parted, 1);
}

double seconds_of_cpu() {
  rusage usage{};
  ::getrusage(RUSAGE_SELF, &usage);
  const auto seconds = [](const timeval& time) {
    return static_cast<double>(time.tv_sec) + 1e-6 * static_cast<double>(time.tv_usec);
  };
  return seconds(usage.ru_utime) + seconds(usage.ru_stime);
}

// Measures CPU time, which does not depend on the load of the machine.
TEST_P(ServerDeaths, AnIdleServerSleeps) {
  if (thinned) GTEST_SKIP() << "a sanitizer has work of its own";
  Fleet fleet(size, [&](int rank) -> std::string {
    Communicator world = join(rank);
    ParameterServer server(world, {.servers = {0, 1}});
    Parameters w = server.open("w", 1000, DType::f32);
    std::this_thread::sleep_for(std::chrono::milliseconds(500));
    const double before = seconds_of_cpu();
    std::this_thread::sleep_for(std::chrono::seconds(2));
    const double share = (seconds_of_cpu() - before) / 2;
    return share < 0.01 ? "" : "an idle rank took " + std::to_string(100 * share) + " % of a core";
  });
  for (int rank = 0; rank < size; ++rank) EXPECT_EQ(fleet.answer(rank), "") << "rank " << rank;
}

INSTANTIATE_TEST_SUITE_P(Everywhere, ServerDeaths, ::testing::Values("shm", "tcp", "routed"),
                         [](const auto& one) { return std::string(one.param); });

}  // namespace
}  // namespace tutti::testing
