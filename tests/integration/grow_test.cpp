// Processes join a job that runs: they wait at its store until the job's ranks admit them.
#include <gtest/gtest.h>
#include <signal.h>
#include <unistd.h>

#include <array>
#include <chrono>
#include <cstdlib>
#include <memory>
#include <numeric>
#include <thread>

#include "tests/support/processes.hpp"
#include "tests/support/store_process.hpp"
#include "tutti.hpp"

namespace tutti::testing {
namespace {

constexpr double patience = 20;

void pause(int milliseconds) { std::this_thread::sleep_for(std::chrono::milliseconds(milliseconds)); }

/// An allreduce and a ring of messages in a world of `size` ranks; returns what is wrong.
std::string use(Communicator& world, int size) {
  if (world.size() != size) return "size " + std::to_string(world.size()) + "; ";
  std::vector<std::int64_t> data(10000, world.rank() + 1);
  world.allreduce(data).wait();
  if (data.front() != size * (size + 1) / 2 || data.back() != data.front()) return "a wrong sum; ";
  std::array<int, 1> in{}, out{world.rank()};
  world.shift(out, in).wait();
  return in[0] == (world.rank() + size - 1) % size ? "" : "a wrong message; ";
}

/// What a job of the launcher has in its environment, for ranks with a number and for processes that are to join.
class Grow : public ::testing::TestWithParam<std::tuple<const char*, const char*>> {
 protected:
  void SetUp() override {
    const auto [transport, store] = GetParam();
    if (store == std::string("tcp")) {
      server_ = std::make_unique<StoreProcess>("secret");
      store_ = server_->url();
    } else {
      store_ = "file://" + folder_.path();
    }
  }

  Settings settings() const {
    Settings settings;
    settings.transport = std::get<0>(GetParam());
    settings.store = store_;
    settings.secret = "secret";
    settings.job = "a job";
    settings.timeout = 50;
    settings.connect_timeout = 20;
    return settings;
  }
  Communicator begin(int rank, int size) const {
    ::setenv("TUTTI_RANK", std::to_string(rank).c_str(), 1);
    ::setenv("TUTTI_SIZE", std::to_string(size).c_str(), 1);
    return Communicator::from_env(settings());
  }
  Communicator join() const {
    ::setenv("TUTTI_JOIN", "1", 1);
    return Communicator::from_env(settings());
  }

  TemporaryFolder folder_;
  std::string store_;
  std::unique_ptr<StoreProcess> server_;
};

TEST_P(Grow, AdmitsProcessesThatWait) {
  constexpr int size = 3, newcomers = 2;
  Fleet fleet(size + newcomers, [&](int process) -> std::string {
    if (process >= size) {
      Communicator world = join();
      return world.rank() < size || world.epoch() == 0 ? "a wrong rank or epoch" : use(world, size + newcomers);
    }
    Communicator before = begin(process, size);
    Communicator world = before.grow(newcomers, patience);
    std::string wrong = use(world, size + newcomers);
    if (world.rank() != process) wrong += "another rank; ";
    if (before.epoch() != 0 || world.epoch() == 0) wrong += "a wrong epoch; ";
    return wrong + use(before, size);
  });
  fleet.expect_success();
}

TEST_P(Grow, StaysAsItIsIfNobodyWaits) {
  constexpr int size = 2;
  Fleet fleet(size, [&](int rank) -> std::string {
    Communicator world = begin(rank, size);
    Communicator same = world.grow(3);
    return same.epoch() == 0 ? use(same, size) : "another epoch";
  });
  fleet.expect_success();
}

// Each rank of the first four dies in turn, and a newcomer takes its place.
TEST_P(Grow, ReplacesEveryRank) {
  constexpr int size = 4;
  // A rank that dies may fail what the others do at that time.
  const auto live = [](Communicator world, bool is_first) -> std::string {
    std::string wrong;
    for (;;) {
      try {
        wrong += use(world, size);
        if (world.epoch() == size) return wrong;
        if (is_first && world.rank() == 0) ::raise(SIGKILL);  // the first ones come before the newcomers
        for (;;) world.barrier().wait();
      } catch (const Error& error) {
        if (error.code() != Code::peer_lost) throw;
      }
      Communicator left = world.shrink();
      world = left.grow(1, patience);
    }
  };
  Fleet fleet(2 * size, [&](int process) -> std::string {
    return process < size ? live(begin(process, size), true) : live(join(), false);
  });
  for (int process = 0; process < 2 * size; ++process)
    EXPECT_EQ(fleet.answer(process), process < size ? "killed by signal 9" : "") << "process " << process;
}

// Processes that end while they wait, hear their call or connect do not hold the ranks up.
TEST_P(Grow, PassesOverProcessesThatEnd) {
  constexpr int size = 2, dying = 12;
  Fleet fleet(size + dying + 1, [&](int process) -> std::string {
    if (process < size) {
      Communicator world = begin(process, size);
      while (world.size() == size) {
        Communicator next = world.grow(1, 0.05);
        if (next.epoch() == world.epoch()) continue;
        bool works = true;
        try {
          next.barrier().wait();
        } catch (const Error& error) {
          if (error.code() != Code::peer_lost) throw;
          works = false;
        }
        if (world.agree(works ? 1 : 0).bits == 1) world = next;
      }
      try {
        return use(world, size + 1);
      } catch (const Error& error) {  // the newcomer has died since
        return error.code() == Code::peer_lost && process < size ? "" : error.what();
      }
    }
    std::thread killer;
    if (process < size + dying)
      killer = std::thread([delay = 5 + 7 * (process - size)] {
        pause(delay);
        ::kill(::getpid(), SIGKILL);
      });
    else
      pause(200);
    Communicator world = join();
    world.barrier().wait();
    if (killer.joinable()) killer.join();
    return use(world, size + 1);
  });
  for (int process = 0; process < size; ++process) EXPECT_EQ(fleet.answer(process), "") << "rank " << process;
}

TEST_P(Grow, SaysWhatAProcessLacksThatIsToJoin) {
  Fleet fleet(1, [&](int) -> std::string {
    ::setenv("TUTTI_JOIN", "1", 1);
    Settings without = settings();
    without.store.clear();
    try {
      Communicator::from_env(without);
    } catch (const Error& error) {
      return std::string(error.what()).find("set TUTTI_STORE, TUTTI_JOB and TUTTI_SECRET") == std::string::npos
                 ? error.what()
                 : "";
    }
    return "no error";
  });
  fleet.expect_success();
}

INSTANTIATE_TEST_SUITE_P(Everywhere, Grow,
                         ::testing::Combine(::testing::Values("shm", "tcp"), ::testing::Values("tcp", "file")),
                         [](const auto& one) {
                           return std::string(std::get<0>(one.param)) + "_by_" + std::get<1>(one.param) + "_store";
                         });

}  // namespace
}  // namespace tutti::testing
