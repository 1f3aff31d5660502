// Traps into which real jobs have fallen that go on after deaths (reports of torchft, PCCL and others): each is a test.
// T1, T2 and T10 are of training: tests/engine/elastic_test.py.
#include <gtest/gtest.h>
#include <sched.h>
#include <signal.h>
#include <unistd.h>

#include <array>
#include <chrono>
#include <cstdlib>
#include <fstream>
#include <thread>

#include "tests/support/joined.hpp"
#include "tests/support/processes.hpp"
#include "tests/support/store_process.hpp"
#include "tutti.hpp"

namespace tutti::testing {
namespace {

constexpr double patience = 20;

void pause(int milliseconds) { std::this_thread::sleep_for(std::chrono::milliseconds(milliseconds)); }

Settings settings_of(const std::string& store, const std::string& job, const std::string& transport = "shm,tcp") {
  Settings settings;
  settings.transport = transport;
  settings.store = store;
  settings.secret = "secret";
  settings.job = job;
  settings.timeout = 50;
  settings.connect_timeout = 20;
  return settings;
}

Communicator begin(const Settings& settings, int rank, int size) {
  ::setenv("TUTTI_RANK", std::to_string(rank).c_str(), 1);
  ::setenv("TUTTI_SIZE", std::to_string(size).c_str(), 1);
  return Communicator::from_env(settings);
}

Communicator join(const Settings& settings) {
  ::setenv("TUTTI_JOIN", "1", 1);
  return Communicator::from_env(settings);
}

int sum_of_ones(Communicator& world) { return world.allreduce(1).wait(); }

/// Resident memory of this process in KiB.
long resident() {
  std::ifstream file("/proc/self/statm");
  long pages = 0;
  file >> pages >> pages;
  return pages * ::sysconf(_SC_PAGESIZE) / 1024;
}

// Two jobs at one store merged. Here a process joins the job whose name it has.
TEST(Traps, T3_TwoJobsAtOneStoreDoNotMerge) {
  const StoreProcess server("secret");
  const std::string store = server.url();
  Fleet fleet(6, [&](int process) -> std::string {
    const bool first = process % 2 == 0;
    const Settings settings = settings_of(store, first ? "one" : "other");
    if (process >= 4) {
      if (first) pause(300);  // the process of the other job waits first
      Communicator world = join(settings);
      return sum_of_ones(world) == 3 && world.settings().job == settings.job ? "" : "another job";
    }
    Communicator world = begin(settings, process / 2, 2).grow(1, patience);
    return sum_of_ones(world) == 3 ? "" : "size " + std::to_string(world.size());
  });
  fleet.expect_success();
}

// A member advertised the name of its host, which others could not resolve. Here nobody can resolve any rank's name.
TEST(Traps, T4_NewcomersAreReachedByAddressAndNotByName) {
  const StoreProcess server("secret");
  const Settings settings = settings_of(server.url(), "job", "tcp");
  constexpr std::string_view refused = "no namespace";
  Fleet fleet(3, [&](int process) -> std::string {
    const std::string name = "no-such-host-" + std::to_string(process) + ".invalid";
    if (::unshare(CLONE_NEWUTS) != 0 || ::sethostname(name.data(), name.size()) != 0) return std::string(refused);
    Communicator world = process == 2 ? join(settings) : begin(settings, process, 2).grow(1, patience);
    if (world.topology()[process].host_name != name) return "the name is " + world.topology()[process].host_name;
    return sum_of_ones(world) == 3 ? "" : "a wrong sum";
  });
  for (int process = 0; process < 3; ++process) {
    const std::string answer = fleet.answer(process);
    if (answer == refused) GTEST_SKIP() << "this process may not name its host";
    EXPECT_EQ(answer, "") << "process " << process;
  }
}

// A member that came late to the first exchange was taken for dead, and the fast one was ended. Here waiting for a rank
// that lives is no fault, neither in a call nor in shrink().
TEST(Traps, T5_WaitingForARankThatLivesIsNoFault) {
  constexpr int size = 3, slow = 1, victim = 2;
  const TemporaryFolder folder;
  Fleet fleet(size, [&](int rank) -> std::string {
    Communicator world = Communicator::connect(bootstrap_in(folder.path(), rank, size));
    if (rank == victim) {
      pause(300);  // the others wait in a call
      ::raise(SIGKILL);
    }
    if (rank == slow) pause(3000);
    try {
      world.barrier().wait();
      return "no error";
    } catch (const Error& error) {
      if (error.culprit() != victim) return error.what();
    }
    Communicator left = world.shrink();
    return sum_of_ones(left) == 2 ? "" : "a wrong sum";
  });
  for (int rank = 0; rank < size; ++rank)
    EXPECT_EQ(fleet.answer(rank), rank == victim ? "killed by signal 9" : "") << "rank " << rank;
}

// A barrier with a slow peer grew to 30 GB. Here a rank that waits keeps no more memory, whatever the others send.
TEST(Traps, T6_MemoryIsBoundedWhileARankWaits) {
  constexpr int size = 3, slow = 2;
  const TemporaryFolder folder;
  for (const char* transport : {"shm", "tcp"}) {
    Fleet fleet(size, [&](int rank) -> std::string {
      Communicator world = Communicator::connect(bootstrap_in(folder.path() + "/" + transport, rank, size, transport));
      std::vector<float> data(1 << 20);
      world.barrier().wait();
      const long before = resident();
      if (rank == slow) pause(2500);
      std::vector<Work> works;
      if (rank == 0)
        for (int i = 0; i < 64; ++i) works.push_back(world.send(data, slow));
      if (rank == slow)
        for (int i = 0; i < 64; ++i) world.recv(data, 0).wait();
      for (const Work& one : works) one.wait();
      world.barrier().wait();
      const long grown = resident() - before;
      return grown < 64 * 1024 ? "" : "grown by " + std::to_string(grown) + " KiB";
    });
    fleet.expect_success();
  }
}

// A rank that was stopped came back after the others had gone on without it, and wrote. Here it is told, and can make
// no call.
TEST(Traps, T7_ARankThatComesBackIsToldThatItIsOut) {
  constexpr int size = 4, out = 2;
  const TemporaryFolder folder;
  Fleet fleet(size, [&](int rank) -> std::string {
    Bootstrap bootstrap = bootstrap_in(folder.path(), rank, size, "tcp");
    bootstrap.settings.chaos = "lose=2@20";  // the others hold it for lost, although it lives
    Communicator world = Communicator::connect(bootstrap);
    try {
      for (;;) world.barrier().wait();
    } catch (const Error& error) {
      if (error.code() != Code::peer_lost || error.culprit() != out) return error.what();
    }
    try {
      Communicator left = world.shrink();
      if (rank == out) return "it is still a member";
      return sum_of_ones(left) == size - 1 ? "" : "a wrong sum";
    } catch (const Error& error) {
      return rank == out && error.code() == Code::peer_lost && error.culprit() == out ? "" : error.what();
    }
  });
  fleet.expect_success();
}

// Late messages of an earlier membership were folded. Here messages of the communicator before, which nobody has
// received, do not reach the one after it, although rank, tag and size are equal.
TEST(Traps, T8_MessagesOfAnOldEpochDoNotArrive) {
  constexpr int size = 3, victim = 2;
  for (const char* transport : {"shm", "tcp"}) {
    const TemporaryFolder folder;
    Fleet fleet(size, [&](int rank) -> std::string {
      Communicator world = Communicator::connect(bootstrap_in(folder.path(), rank, size, transport));
      world.barrier().wait();
      std::array<int, 4> old{-1, -1, -1, -1}, data{};
      std::vector<Work> unreceived;
      if (rank == 0)
        for (int i = 0; i < 10; ++i) unreceived.push_back(world.send(old, 1, 7));
      if (rank == victim) {
        pause(100);
        ::raise(SIGKILL);
      }
      try {
        for (;;) world.barrier().wait();
      } catch (const Error& error) {
        if (error.culprit() != victim) return error.what();
      }
      Communicator left = world.shrink();
      for (int round = 0; round < 10; ++round) {
        if (rank == 0) left.send(std::array{round, round, round, round}, 1, 7).wait();
        if (rank == 1) left.recv(data, 0, 7).wait();
        if (rank == 1 && data != std::array{round, round, round, round}) return "an old message";
      }
      for (const Work& one : unreceived) try {
          one.wait();
        } catch (const Error&) {  // small messages have left, or failed
        }
      return sum_of_ones(left) == 2 ? "" : "a wrong sum";
    });
    for (int rank = 0; rank < size; ++rank)
      EXPECT_EQ(fleet.answer(rank), rank == victim ? "killed by signal 9" : "") << transport << " rank " << rank;
  }
}

// A call failed on some ranks only, and only those rolled back. Here agree() makes the step all or none: each rank says
// whether its part is done, and all learn the same.
TEST(Traps, T9_AStepIsDoneByAllOrByNone) {
  constexpr int size = 4, victim = 3, rounds = 10;
  const TemporaryFolder folder;
  for (int round = 0; round < rounds; ++round) {
    Fleet fleet(size, [&](int rank) -> std::string {
      Communicator world = Communicator::connect(
          bootstrap_in(folder.path() + "/" + std::to_string(round), rank, size, round % 2 ? "tcp" : "shm"));
      std::vector<double> data(100000);
      std::thread killer;
      if (rank == victim)
        killer = std::thread([round] {
          pause(2 + 3 * round);
          ::kill(::getpid(), SIGKILL);
        });
      std::int64_t committed = 0;
      for (bool all = true; all;) {
        bool mine = true;
        try {
          world.allreduce(data).wait();
        } catch (const Error&) {
          mine = false;
        }
        const Agreed agreed = world.agree(mine ? 1 : 0);
        all = agreed.bits == 1 && agreed.members.size() == size;
        if (agreed.bits == 1) ++committed;
      }
      Communicator left = world.shrink();
      const std::int64_t least = left.allreduce(committed, min).wait(), most = left.allreduce(committed, max).wait();
      return least == most ? "" : "from " + std::to_string(least) + " to " + std::to_string(most) + " steps";
    });
    for (int rank = 0; rank < size; ++rank)
      EXPECT_EQ(fleet.answer(rank), rank == victim ? "killed by signal 9" : "")
          << "round " << round << " rank " << rank;
  }
}

}  // namespace
}  // namespace tutti::testing
