// Deliberate races: threads, overlapping groups, unmatched and overtaking messages, every way to end a handle.
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <climits>
#include <numeric>
#include <random>
#include <thread>

#include "tests/support/refusal.hpp"
#include "tests/support/require.hpp"
#include "tests/support/worlds.hpp"
#include "tutti.hpp"

namespace tutti::testing {
namespace {

class Races : public ::testing::TestWithParam<const char*> {
 protected:
  void run(int size, const std::function<void(Communicator&)>& body) const {
    const std::string transport = GetParam();
    run_ranks(
        size,
        [&](int rank) {
          Settings settings = test_settings(transport == "routed" ? "shm,tcp" : transport);
          if (transport == "routed") settings.host_id = rank % 2 == 0 ? "even" : "odd";
          return settings;
        },
        body);
  }
};

// Every rank has 4 threads. Each group is used by one thread at a time, in an order that differs between ranks.
TEST_P(Races, FourThreadsOnFourOverlappingGroups) {
  run(4, [](Communicator& world) {
    const std::vector<std::vector<int>> lists = {{0, 1, 2, 3}, {0, 1, 2}, {1, 2, 3}, {3, 0}};
    std::vector<std::optional<Communicator>> groups;
    for (const auto& list : lists) groups.push_back(world.subgroup(list));
    std::vector<std::thread> threads;
    std::atomic<int> wrong{0};
    for (std::size_t g = 0; g < groups.size(); ++g) {
      if (!groups[g]) continue;
      threads.emplace_back([&, g] {
        Communicator& group = *groups[g];
        std::mt19937 random(static_cast<unsigned>(world.rank() * 10) + static_cast<unsigned>(g));
        for (int i = 0; i < 60; ++i) {
          std::vector<std::int64_t> a(1 + static_cast<std::size_t>(i) * 37, group.rank()), b(64 << (i % 8), i);
          std::vector<Work> works;
          works.push_back(group.allreduce(a));
          works.push_back(group.broadcast(b, i % group.size()));
          works.push_back(group.barrier());
          std::shuffle(works.begin(), works.end(), random);
          for (const Work& work : works) work.wait();
          const std::int64_t sum = group.size() * (group.size() - 1) / 2;
          if (std::ranges::count(a, sum) != std::ssize(a) || std::ranges::count(b, i) != std::ssize(b)) ++wrong;
        }
      });
    }
    for (auto& thread : threads) thread.join();
    require(wrong == 0, "a group saw another group's data");
  });
}

// Groups of nodes, columns and leaders, and the world, are used at once, each by a thread of its own. If groups could
// be mixed up, every message would match a receive in another group.
TEST_P(Races, ThreadsOnTheWorldItsNodesColumnsAndLeaders) {
  run(6, [](Communicator& world) {
    std::vector<Communicator> groups{world.dup(), world.node(), world.across(),
                                     world.node().split_by("one more level")};
    if (auto leaders = world.leaders()) groups.push_back(*leaders);
    std::vector<std::thread> threads;
    std::atomic<int> wrong{0};
    for (std::size_t g = 0; g < groups.size(); ++g)
      threads.emplace_back([&, g] {
        Communicator& group = groups[g];
        std::mt19937 random(static_cast<unsigned>(world.rank() * 10) + static_cast<unsigned>(g));
        for (int i = 0; i < 40; ++i) {
          const auto mark = static_cast<std::int64_t>(g) * 1000 + i;  // identifies the group and the round
          std::vector<std::int64_t> sum(1 + static_cast<std::size_t>(i) * 53, mark);
          std::vector<std::int64_t> all(static_cast<std::size_t>(group.size()) * 8, -1);
          const std::vector<std::int64_t> mine(8, mark * 100 + group.rank());
          std::vector<Work> works{group.allreduce(sum), group.allgather(mine, all), group.barrier()};
          std::shuffle(works.begin(), works.end(), random);
          for (const Work& work : works) work.wait();
          if (std::ranges::count(sum, mark * group.size()) != std::ssize(sum)) ++wrong;
          for (std::size_t k = 0; k < all.size(); ++k)
            if (all[k] != mark * 100 + static_cast<std::int64_t>(k / 8)) ++wrong;
        }
      });
    for (auto& thread : threads) thread.join();
    require(wrong == 0, "a group saw another group's data");
  });
}

TEST_P(Races, AllocatedOnOneRankOrdinaryOnTheOthers) {
  run(3, [](Communicator& world) {
    constexpr std::size_t count = 100'000;
    auto registered = world.allocate<float>(count);
    std::vector<float> ordinary(count);
    const std::span<float> data = world.rank() == 1 ? std::span<float>(registered) : std::span<float>(ordinary);
    std::ranges::fill(data, static_cast<float>(world.rank()));
    world.allreduce(data, avg).wait();
    require(std::ranges::count(data, 1.0f) == std::ssize(data), "the mean of 0, 1, 2 is 1");
  });
}

TEST_P(Races, ALargeSendDoesNotBlockAnotherTag) {
  run(2, [](Communicator& world) {
    std::vector<std::uint8_t> large(64 << 20, 7), small(1, 3);
    if (world.rank() == 0) {
      Work b = world.send(large, 1, 2);
      Work a = world.send(small, 1, 1);
      a.wait();
      b.wait();
    } else {
      std::ranges::fill(large, std::uint8_t{0});
      small[0] = 0;
      world.recv(small, 0, 1).wait();
      require(small[0] == 3, "the small message");
      world.recv(large, 0, 2).wait();
      require(std::ranges::count(large, 7) == std::ssize(large), "the large message");
    }
  });
}

TEST_P(Races, AThousandUnmatchedSends) {
  run(2, [](Communicator& world) {
    constexpr int n = 1000;
    std::vector<std::vector<std::int32_t>> data;
    std::vector<Work> works;
    for (int i = 0; i < n; ++i) data.emplace_back(1 + static_cast<std::size_t>(i) % 700, world.rank() == 0 ? i : -1);
    if (world.rank() == 0)
      for (int i = 0; i < n; ++i) works.push_back(world.send(data[static_cast<std::size_t>(i)], 1, i));
    world.barrier().wait();  // must not wait for the messages, which are unmatched
    if (world.rank() == 1)
      for (int i = n - 1; i >= 0; --i) works.push_back(world.recv(data[static_cast<std::size_t>(i)], 0, i));
    for (const Work& work : works) work.wait();
    for (int i = 0; i < n; ++i) require(data[static_cast<std::size_t>(i)].back() == i, "message " + std::to_string(i));
  });
}

TEST_P(Races, TwoHundredInFlightWaitedForInAnyOrder) {
  run(4, [](Communicator& world) {
    std::mt19937 random(static_cast<unsigned>(world.rank()));
    std::vector<std::vector<float>> data;
    std::vector<Work> works;
    for (std::size_t i = 0; i < 200; ++i) data.emplace_back(1 + i * 97 % 5000, static_cast<float>(i));
    for (auto& one : data) works.push_back(world.allreduce(one));
    std::vector<std::size_t> order(data.size());
    std::iota(order.begin(), order.end(), std::size_t{0});
    std::shuffle(order.begin(), order.end(), random);
    for (const std::size_t i : order) {
      works[i].wait();
      require(data[i].back() == 4.0f * static_cast<float>(i), "allreduce " + std::to_string(i));
    }
  });
}

TEST_P(Races, HandlesEndInEveryWay) {
  run(2, [](Communicator& world) {
    std::vector<float> data(200'000, 1.0f);
    { [[maybe_unused]] Work dropped = world.allreduce(data); }  // waits, because the program owns the memory
    require(data.front() == 2.0f && data.back() == 2.0f, "a dropped handle waits");
    { [[maybe_unused]] auto detached = world.allreduce(1); }  // does not wait: the library owns the memory
    std::atomic<int> called{0};
    Work work = world.allreduce(data);
    work.then([&](const Status& status) { called += status.ok() ? 1 : 100; });
    work.then([&](const Status&) { throw std::logic_error("a callback's own trouble, which is logged"); });
    Work copy = work;
    while (!copy.wait_for(Seconds(0.001))) {
    }
    work.wait();
    work.wait();
    work.then([&](const Status&) { called += 10; });
    world.barrier().wait();
    while (called != 11) std::this_thread::yield();
    require(data.front() == 4.0f, "the second sum");
  });
}

// No thread waits for these calls: the background thread must complete them.
TEST_P(Races, WorkThatNobodyWaitsForIsDone) {
  run(3, [](Communicator& world) {
    std::vector<float> data(300'000, 1.0f);
    const Work work = world.allreduce(data);
    while (!work.done()) std::this_thread::sleep_for(std::chrono::milliseconds(1));
    require(data[299'999] == 3.0f, "the sum");
    work.wait();
  });
}

TEST_P(Races, AnUnwindingHandleAbortsOnAllRanks) {
  std::atomic<int> aborted{0};
  run(2, [&](Communicator& world) {
    std::vector<float> data(1'000'000, 1.0f);
    try {
      if (world.rank() == 0) {
        const Work work = world.allreduce(data);
        throw std::logic_error("the program's own trouble");
      }
      std::this_thread::sleep_for(std::chrono::milliseconds(30));
      world.allreduce(data).wait();
    } catch (const std::logic_error&) {
      ++aborted;
    } catch (const Error& error) {
      if (error.code() == Code::aborted && error.culprit() == 0) ++aborted;
    }
  });
  EXPECT_EQ(aborted, 2);
}

// A group that one rank aborts at once: others may learn of the failure before their split() has returned.
TEST_P(Races, AGroupThatFailsAtOnceFailsOnAllRanks) {
  std::atomic<int> aborted{0};
  run(3, [&](Communicator& world) {
    for (int i = 0; i < 20; ++i) {
      auto group = world.split(0);
      if (world.rank() == 0) group->abort("to see whether it is heard");
      try {
        while (true) group->barrier().wait();  // repeated, because barriers that ended before the abort succeed
      } catch (const Error& error) {
        if (error.code() == Code::aborted && error.culprit() == 0) ++aborted;
      }
    }
  });
  EXPECT_EQ(aborted, 60);
}

TEST_P(Races, FullVerificationFindsWhatSizesDoNotShow) {
  std::atomic<int> found{0};
  run_ranks(
      3,
      [&](int) {
        Settings settings = test_settings(std::string(GetParam()) == "routed" ? "shm,tcp" : GetParam());
        settings.verify = "full";
        return settings;
      },
      [&](Communicator& world) {
        std::vector<std::int32_t> data(100, 1);
        world.allreduce(data).wait();
        try {
          world.allreduce(data, world.rank() == 1 ? max : min).wait();
        } catch (const Error& error) {
          if (error.code() == Code::mismatch && std::ranges::count(data, 3) == 100) ++found;  // the call wrote nothing
        }
      });
  EXPECT_EQ(found, 3);
}

TEST(Arguments, AreRefusedWithOneLine) {
  run_ranks(1, test_settings("inproc"), [](Communicator& world) {
    std::vector<float> four(4), five(5);
    std::vector<std::int32_t> ints(4);
    const auto refused = [](auto call) -> std::string {
      try {
        call();
      } catch (const Error& error) {
        return error.code() == Code::invalid ? error.what() : "another code";
      }
      return "accepted";
    };
    EXPECT_EQ(refused([&] { world.allreduce(four, five).wait(); }),
              "allreduce: out has 5 elements, but must have 4 (as in)");
    EXPECT_EQ(refused([&] { world.broadcast(four, 1).wait(); }),
              "broadcast: root 1 is not a rank of this communicator, whose ranks are 0 to 0");
    EXPECT_EQ(refused([&] { world.allreduce(ints, avg).wait(); }),
              "allreduce: avg is not defined for i32; convert to a floating-point type, or use sum");
    EXPECT_EQ(refused([&] { world.allreduce(four, ints).wait(); }),
              "allreduce: in holds f32 and out i32; they must be of one type");
    const std::span<float> all(five);
    EXPECT_EQ(refused([&] { world.allreduce(all.first(4), all.last(4)).wait(); }),
              "allreduce: in and out overlap, and not in the way that counts as in place; use separate buffers");
    EXPECT_NE(refused([&] { world.allreduce(four, sum, {.algorithm = "magic"}).wait(); }).find("no algorithm 'magic'"),
              std::string::npos);
  });
}

// A wrong peer of either half is refused by the call itself, and nothing is in flight afterwards.
TEST(Arguments, APeerThatIsNoRankIsRefusedAndHarmsNobody) {
  run_ranks(2, test_settings("inproc"), [](Communicator& world) {
    const int me = world.rank();
    std::vector<int> out(1, me), in(1, -1);
    const std::string range = " is not a rank of this communicator, whose ranks are 0 to 1";
    const std::string sender = "; recv_any receives from whoever sends";
    for (const int peer : {-1, -2, INT_MIN, 2, INT_MAX}) {
      const std::string wrong = "peer " + std::to_string(peer) + range;
      EXPECT_EQ(refusal([&] { static_cast<void>(world.send(out, peer)); }), "send: " + wrong);
      EXPECT_EQ(refusal([&] { static_cast<void>(world.recv(in, peer)); }), "recv: " + wrong + (peer < 0 ? sender : ""));
      EXPECT_EQ(refusal([&] { static_cast<void>(world.sendrecv(out, peer, in, me)); }), "sendrecv: " + wrong);
      EXPECT_EQ(refusal([&] { static_cast<void>(world.sendrecv(out, me, in, peer)); }), "sendrecv: " + wrong);
    }
    Collective nobody;  // in a Collective, peer -1 means that this half is left out
    nobody.kind = Kind::send;
    EXPECT_EQ(refusal([&] { static_cast<void>(world.launch(nobody)); }),
              "send: it has neither a rank to send to nor one to receive from");
    for (const int peer : {me, 1 - me}) {
      Work sent = world.send(out, peer);
      world.recv(in, peer).wait();
      sent.wait();
      EXPECT_EQ(in[0], peer);
    }
  });
}

TEST(Arguments, AnAlgorithmThatDoesNotFitIsRefusedAndHarmsNobody) {
  run_ranks(3, test_settings("inproc"), [](Communicator& world) {
    std::vector<float> one(1, static_cast<float>(world.rank())), all(3);
    if (world.rank() == 1) {  // only rank 1 makes these mistakes; its later calls still match
      EXPECT_THROW(world.allgather(one, all, {.algorithm = "recursive_doubling"}).wait(), Error);
      EXPECT_THROW(world.allreduce(one, sum, {.algorithm = "magic"}).wait(), Error);
      EXPECT_THROW(world.send(one, 0, -1).wait(), Error);
    }
    world.allgather(one, all).wait();
    EXPECT_EQ(all, (std::vector<float>{0, 1, 2}));
  });
}

TEST(Arguments, SettingsFromCodeAreChecked) {
  Settings settings = test_settings("inproc");
  settings.max_lanes = 0;
  EXPECT_THROW(run_ranks(1, settings, [](Communicator&) {}), std::runtime_error);
}

INSTANTIATE_TEST_SUITE_P(Everywhere, Races, ::testing::Values("inproc", "shm", "tcp", "routed"),
                         [](const auto& param) { return std::string(param.param); });

}  // namespace
}  // namespace tutti::testing
