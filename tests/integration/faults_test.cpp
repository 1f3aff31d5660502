// Ranks that die, stop, stay away or disagree: which error the others get, and how soon.
#include <gtest/gtest.h>
#include <sched.h>
#include <signal.h>

#include <algorithm>
#include <chrono>
#include <random>
#include <span>
#include <sstream>
#include <thread>

#include "tests/support/asleep.hpp"
#include "tests/support/going.hpp"
#include "tests/support/joined.hpp"
#include "tests/support/processes.hpp"
#include "tutti.hpp"

namespace tutti::testing {
namespace {

using namespace std::chrono_literals;

struct Scene {
  std::string transport;
  std::string folder;
  int size = 4;
  double timeout = 60;
  std::string verify = "light";
};

Communicator join(const Scene& scene, int rank) {
  Bootstrap bootstrap = bootstrap_in(scene.folder, rank, scene.size);
  bootstrap.settings.transport = scene.transport;
  bootstrap.settings.timeout = scene.timeout;
  bootstrap.settings.verify = scene.verify;
  if (const char* level = std::getenv("TUTTI_TEST_LOG")) bootstrap.settings.log = level;
  return Communicator::connect(bootstrap);
}

std::int64_t now_us() {
  return std::chrono::duration_cast<std::chrono::microseconds>(Clock::now().time_since_epoch()).count();
}

// Returns a rank's error as "TIME CODE CULPRIT text".
std::string report(const Error& error) {
  return std::to_string(now_us()) + " " + std::string(name(error.code())) + " " + std::to_string(error.culprit()) +
         " " + error.what();
}

struct Report {
  std::int64_t time = 0;
  std::string code, text;
  int culprit = -2;
};

Report read_report(const std::string& said) {
  Report report;
  std::istringstream in(said);
  in >> report.time >> report.code >> report.culprit;
  std::getline(in, report.text);
  return report;
}

// Runs `act` on a world until it throws an Error, and returns the report; "no error" if it does not throw.
template <class Act>
std::string until_error(const Scene& scene, int rank, Act act) {
  Communicator world = join(scene, rank);
  try {
    act(world);
  } catch (const Error& error) {
    return report(error);
  }
  return "no error";
}

void note_begin(const Scene& scene, int rank) {
  make_file_store(scene.folder)->set("began/" + std::to_string(rank), std::to_string(now_us()));
}

// The promise of a second: all ranks know of a mismatch that soon after the last call. So this test may measure time.
void expect_within_a_second(const Scene& scene, const std::vector<Report>& reports) {
  const auto store = make_file_store(scene.folder);
  std::int64_t last = 0;
  for (int rank = 0; rank < scene.size; ++rank)
    last = std::max<std::int64_t>(last, std::stoll(store->wait("began/" + std::to_string(rank), deadline_in(60s))));
  for (const Report& heard : reports) EXPECT_LE(heard.time - last, 1'000'000) << heard.text;
}

class Faults : public ::testing::TestWithParam<const char*> {
 protected:
  Scene scene(int size = 4) const { return {GetParam(), folder_.path(), size, 60}; }
  TemporaryFolder folder_;
};

// After an error the memory belongs to the caller again: no other rank may write to it.
void expect_left_alone(std::span<float> data) {
  std::ranges::fill(data, -7.0f);
  std::this_thread::sleep_for(20ms);
  if (std::ranges::count(data, -7.0f) != std::ssize(data)) throw std::runtime_error("written to after the error");
}

/// The circumstances of a kill.
struct Doom {
  int victim;
  std::chrono::milliseconds after;
  bool with_child;  ///< the victim has forked a child, which lives on
  bool shared;      ///< the buffers come from Communicator::allocate
};

// Kills a rank during 64 MiB allreduces. Returns the microseconds until each survivor knew.
std::vector<std::int64_t> kill_once(const Scene& scene, const Doom& doom) {
  const int victim = doom.victim;
  Fleet fleet(scene.size, [&](int rank) {
    Communicator world = join(scene, rank);
    if (rank == victim && doom.with_child && ::fork() == 0) {
      std::this_thread::sleep_for(2s);
      ::_exit(0);
    }
    constexpr std::size_t count = 16 << 20;
    const auto shared = world.allocate<float>(doom.shared ? count : 0);
    std::vector<float> own(doom.shared ? 0 : count);
    const std::span<float> data = doom.shared ? std::span<float>(shared.data(), count) : std::span<float>(own);
    std::ranges::fill(data, 1.0f);
    world.barrier().wait();
    say_going(scene.folder, rank);
    try {
      while (true) world.allreduce(data, max).wait();
    } catch (const Error& error) {
      const std::string said = report(error);
      expect_left_alone(data);
      return said;
    }
  });
  wait_until_going(scene.folder, scene.size);
  std::this_thread::sleep_for(doom.after);
  const std::int64_t killed = now_us();
  fleet.kill(victim);
  std::vector<std::int64_t> delays;
  for (int rank = 0; rank < scene.size; ++rank) {
    const std::string said = fleet.answer(rank);
    if (rank == victim) continue;
    const Report heard = read_report(said);
    EXPECT_EQ(heard.code, "peer_lost") << "rank " << rank << " of " << scene.transport << ": " << said;
    EXPECT_EQ(heard.culprit, victim) << "rank " << rank << " of " << scene.transport << ": " << said;
    EXPECT_NE(heard.text.find("rank " + std::to_string(victim)), std::string::npos) << said;
    EXPECT_NE(heard.text.find("allreduce"), std::string::npos) << said;
    delays.push_back(heard.time - killed);
  }
  return delays;
}

// TUTTI_TEST_KILLS sets the number of kills. Delays are printed here, and judged by tests/kills on a quiet machine.
TEST_P(Faults, TheDeadRankIsNamedByEverySurvivor) {
  const char* wanted = std::getenv("TUTTI_TEST_KILLS");
  const int kills = wanted ? std::atoi(wanted) : 10;
  std::mt19937 random(7);
  std::vector<std::int64_t> delays;
  for (int i = 0; i < kills && !HasFailure(); ++i) {
    const TemporaryFolder folder;
    const Scene one{GetParam(), folder.path(), 4, 60};
    const auto some = kill_once(
        one, {static_cast<int>(random() % 4), std::chrono::milliseconds(random() % 60), i % 5 == 4, i % 2 == 1});
    delays.insert(delays.end(), some.begin(), some.end());
  }
  std::ranges::sort(delays);
  ASSERT_FALSE(delays.empty());
  std::printf("%s: %d kills; survivors heard after %.1f ms (median), %.1f ms (worst)\n", GetParam(), kills,
              static_cast<double>(delays[delays.size() / 2]) / 1e3, static_cast<double>(delays.back()) / 1e3);
}

TEST_P(Faults, ADifferentCollectiveIsDescribedOnEveryRank) {
  Fleet fleet(4, [scene = scene()](int rank) {
    return until_error(scene, rank, [&](Communicator& world) {
      std::vector<float> data(1000, 1.0f);
      note_begin(scene, rank);
      if (rank == 1)
        world.broadcast(data, 0).wait();
      else
        world.allreduce(data).wait();
      world.barrier().wait();  // a rank whose part of the call had ended gets the error here
    });
  });
  std::vector<Report> reports;
  for (int rank = 0; rank < 4; ++rank) {
    const std::string said = fleet.answer(rank);
    const Report heard = read_report(said);
    EXPECT_EQ(heard.code, "mismatch") << said;
    EXPECT_NE(heard.text.find("broadcast("), std::string::npos) << said;
    EXPECT_NE(heard.text.find("allreduce("), std::string::npos) << said;
    reports.push_back(heard);
  }
  expect_within_a_second(scene(), reports);
}

TEST_P(Faults, AnotherCountIsDescribedOnEveryRank) {
  Fleet fleet(4, [scene = scene()](int rank) {
    return until_error(scene, rank, [&](Communicator& world) {
      std::vector<float> data(rank == 2 ? 1001 : 1000, 1.0f);
      note_begin(scene, rank);
      world.allreduce(data).wait();
      world.barrier().wait();
    });
  });
  std::vector<Report> reports;
  for (int rank = 0; rank < 4; ++rank) {
    const std::string said = fleet.answer(rank);
    const Report heard = read_report(said);
    EXPECT_EQ(heard.code, "mismatch") << said;
    EXPECT_NE(heard.text.find("1001"), std::string::npos) << said;
    EXPECT_NE(heard.text.find("1000"), std::string::npos) << said;
    reports.push_back(heard);
  }
  expect_within_a_second(scene(), reports);
}

// Calls that were started after one that fails end with it, not at their own deadlines.
TEST_P(Faults, CallsBehindAMismatchEndToo) {
  Fleet fleet(2, [scene = scene(2)](int rank) -> std::string {
    Communicator world = join(scene, rank);
    std::vector<float> first(10'000), second(10'000), third(10);
    const auto differing = std::span(first).first(rank == 0 ? 10'000 : 9'000);
    const Work works[] = {world.allreduce(differing), world.allreduce(second), world.allreduce(third)};
    std::string said;
    for (const Work& work : works) {
      try {
        work.wait();
        if (&work == works) said += "it passed; ";  // over messages, the rank may have received the smaller data
      } catch (const Error& error) {
        if (error.code() != Code::mismatch) said += error.what();
      }
    }
    return said;
  });
  fleet.expect_success();
}

// Neither rank sends anything, so only the question where the other rank is can detect this.
TEST_P(Faults, TwoRanksThatEachBelieveTheOtherIsTheRoot) {
  Fleet fleet(2, [scene = scene(2)](int rank) {
    return until_error(scene, rank, [&](Communicator& world) {
      std::vector<float> data(1000, 1.0f);
      note_begin(scene, rank);
      world.broadcast(data, 1 - rank).wait();
    });
  });
  std::vector<Report> reports;
  for (int rank = 0; rank < 2; ++rank) {
    const std::string said = fleet.answer(rank);
    const Report heard = read_report(said);
    EXPECT_EQ(heard.code, "mismatch") << said;
    EXPECT_NE(heard.text.find("root 0"), std::string::npos) << said;
    EXPECT_NE(heard.text.find("root 1"), std::string::npos) << said;
    reports.push_back(heard);
  }
  expect_within_a_second(scene(2), reports);
}

// The others have three calls in flight, which must not be mistaken for the missing rank's last call.
TEST_P(Faults, ARankThatNeverCallsIsNamedWithItsLastCall) {
  for (const char* verify : {"light", "off"}) {
    const TemporaryFolder folder;
    const Scene scene{GetParam(), folder.path(), 4, 0.8, verify};
    Fleet fleet(4, [scene](int rank) {
      return until_error(scene, rank, [&](Communicator& world) {
        std::vector<float> data(1000, 1.0f);
        for (int i = 0; i < 3; ++i) world.allreduce(data, max).wait();
        if (rank == 2) std::this_thread::sleep_for(2s);
        const Work first = world.barrier(), second = world.barrier(), third = world.barrier();
        first.wait();
      });
    });
    const std::string last = *verify == 'o' ? "call 3, " : "call 3, allreduce(max, f32, count 1000)";
    for (int rank = 0; rank < 4; ++rank) {
      const std::string said = fleet.answer(rank);
      const Report heard = read_report(said);
      EXPECT_EQ(heard.code, "timeout") << said;
      EXPECT_EQ(heard.culprit, 2) << said;
      EXPECT_NE(heard.text.find(last), std::string::npos) << said;
    }
  }
}

TEST_P(Faults, ARankThatEndsNormallyIsNamed) {
  Fleet fleet(3, [scene = scene(3)](int rank) {
    return until_error(scene, rank, [&](Communicator& world) {
      std::vector<float> data(100000, 1.0f);
      world.allreduce(data).wait();
      if (rank == 1) return;
      world.allreduce(data).wait();
    });
  });
  EXPECT_EQ(fleet.answer(1), "no error");
  for (const int rank : {0, 2}) {
    const std::string said = fleet.answer(rank);
    const Report heard = read_report(said);
    EXPECT_EQ(heard.code, "peer_lost") << said;
    EXPECT_EQ(heard.culprit, 1) << said;
  }
}

TEST_P(Faults, AStoppedRankDoesNotHideADeadOne) {
  const Scene scene = this->scene();
  Fleet fleet(4, [scene](int rank) {
    return until_error(scene, rank, [&](Communicator& world) {
      std::vector<float> data(1 << 20, 1.0f);
      world.barrier().wait();
      say_going(scene.folder, rank);
      while (true) world.allreduce(data, max).wait();
    });
  });
  wait_until_going(scene.folder, 4);
  fleet.kill(3, SIGSTOP);
  std::this_thread::sleep_for(50ms);
  fleet.kill(1);
  for (const int rank : {0, 2}) {
    const std::string said = fleet.answer(rank);
    EXPECT_EQ(read_report(said).code, "peer_lost") << said;
    EXPECT_EQ(read_report(said).culprit, 1) << said;
  }
  fleet.kill(3, SIGCONT);
  EXPECT_EQ(read_report(fleet.answer(3)).culprit, 1);
}

// As for containers on one host, which share the network but not the process numbers.
TEST_P(Faults, ADeadRankInAnotherPidNamespaceIsNamed) {
  const Scene scene = this->scene(3);
  const auto act = [&](int rank) {
    return until_error(scene, rank, [&](Communicator& world) {
      std::vector<float> data(1 << 20, 1.0f);
      world.barrier().wait();
      say_going(scene.folder, rank);
      while (true) world.allreduce(data, max).wait();
    });
  };
  Fleet fleet(3, [&](int rank) -> std::string {
    if (rank != 1) return act(rank);
    if (::unshare(CLONE_NEWPID) != 0) return "not allowed";
    const pid_t inner = ::fork();  // process 1 of the new namespace
    if (inner == 0) {
      act(rank);
      ::_exit(0);
    }
    wait_until_going(scene.folder, 3);
    ::kill(inner, SIGKILL);
    ::waitpid(inner, nullptr, 0);
    return "killed";
  });
  const std::string inside = fleet.answer(1);
  if (inside == "not allowed") GTEST_SKIP() << "unshare(CLONE_NEWPID) is refused; run as root";
  EXPECT_EQ(inside, "killed");
  for (const int rank : {0, 2}) {
    const std::string said = fleet.answer(rank);
    EXPECT_EQ(read_report(said).code, "peer_lost") << said;
    EXPECT_EQ(read_report(said).culprit, 1) << said;
  }
}

TEST_P(Faults, ACallInAForkedChildIsRefused) {
  Fleet fleet(2, [scene = scene(2)](int rank) -> std::string {
    Communicator world = join(scene, rank);
    world.barrier().wait();
    std::fflush(nullptr);
    const pid_t child = ::fork();
    if (child == 0) {
      try {
        world.barrier().wait();
      } catch (const Error& error) {
        ::_exit(std::string(error.what()).find("forked") != std::string::npos ? 0 : 2);
      }
      ::_exit(1);
    }
    int status = -1;
    ::waitpid(child, &status, 0);
    world.barrier().wait();  // the parent's communicator still works
    return status == 0 ? "" : "the child ended with status " + std::to_string(status);
  });
  fleet.expect_success();
}

TEST_P(Faults, WaitingCostsNoCore) {
  Fleet fleet(2, [scene = scene(2)](int rank) -> std::string {
    Communicator world = join(scene, rank);
    world.barrier().wait();
    const std::string said = expect_asleep("waiting", 0.05, [&] {
      if (rank == 1) std::this_thread::sleep_for(watched_wait);
      world.barrier().wait();
    });
    return rank == 0 ? said : "";
  });
  fleet.expect_success();
}

INSTANTIATE_TEST_SUITE_P(Everywhere, Faults, ::testing::Values("shm", "tcp"),
                         [](const auto& param) { return std::string(param.param); });

}  // namespace
}  // namespace tutti::testing
