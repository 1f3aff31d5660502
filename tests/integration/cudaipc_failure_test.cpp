// cudaipc between processes, over the fake accelerator: failures, and whether buffers can be freed afterwards.
#include <chrono>
#include <functional>
#include <memory>
#include <thread>

#include "tests/support/comes_true.hpp"
#include "tests/support/going.hpp"
#include "tests/support/ipc_world.hpp"

namespace tutti::testing {
namespace {

using namespace std::chrono_literals;

constexpr std::size_t large = 100'002;  // in floats; so large that each rank reduces a part

/// Makes a call that must fail with an error that has this code and whose text contains `words`.
void expect_error(const std::function<void()>& call, Code code, const std::string& words) {
  try {
    call();
    ADD_FAILURE() << "it did not fail";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), code) << error.what();
    EXPECT_NE(std::string(error.what()).find(words), std::string::npos) << error.what();
  }
}

TEST_F(CudaIpc, CallsThatDoNotMatchAreToldApart) {
  run({2, 1}, [](Communicator&, WorldRank& rank) {
    OnDevice data(0, floats(100, 1.0f));
    Collective call = allreduce_of(data, data);
    if (rank.rank() == 1) call.in.count = call.out.count = 50;
    expect_error([&] { rank.play(call); }, Code::mismatch, "count 50");
  });
}

TEST_F(CudaIpc, ARankWithoutMemoryForItsSlotsIsNamedAndNotWaitedFor) {
  run({2, 1}, [](Communicator& world, WorldRank& rank) {
    Communicator other = world.dup();
    if (rank.rank() == 1) fake_accelerator().allow(0);
    const std::string words = rank.rank() == 1 ? "device 0 has no 16 MiB left" : "rank 1: device 0 has no 16 MiB left";
    expect_error([&] { other.use_backend("cudaipc"); }, Code::unsupported, words);
  });
}

TEST_F(CudaIpc, ARankThatReachesAnotherGpuNotTellsTheOthersSo) {
  Settings settings;
  settings.connect_timeout = 50;  // must not be waited for
  run(
      {2, 2},
      [](Communicator& world, WorldRank& rank) {
        Communicator other = world.dup();
        if (rank.rank() == 1) fake_accelerator().refuse_reach();
        const auto begin = std::chrono::steady_clock::now();
        expect_error([&] { other.use_backend("cudaipc"); }, Code::unsupported, "cuda:1 does not reach the memory of");
        EXPECT_LT(std::chrono::steady_clock::now() - begin, 40s);
      },
      settings);
}

TEST_F(CudaIpc, ADeviceThatHasFailedIsTheErrorOfAll) {
  run({2, 2}, [](Communicator& world, WorldRank& rank) {
    OnDevice& data = *new OnDevice(rank.device(), floats(100, 1.0f));
    rank.play(allreduce_of(data, data));
    world.barrier().wait();  // the other rank has completed its call too
    if (rank.rank() == 1) fake_accelerator().break_device(1, "an illegal memory access was encountered");
    expect_error([&] { rank.play(allreduce_of(data, data)); }, Code::internal, "illegal memory access");
  });
}

TEST_F(CudaIpc, TheDeadlineEndsACallThatOneRankNeverMakes) {
  Settings settings;
  settings.timeout = 1;
  run(
      {2, 1},
      [&](Communicator& world, WorldRank& rank) {
        OnDevice data(0, floats(100, 1.0f));
        if (rank.rank() == 1) {
          make_file_store(folder_.path())->wait("timed out", deadline_in(60s));
          expect_error([&] { world.barrier().wait(); }, Code::timeout, "allreduce");
        } else {
          expect_error([&] { rank.play(allreduce_of(data, data)); }, Code::timeout, "rank 1 on");
          make_file_store(folder_.path())->set("timed out", "1");
        }
      },
      settings);
}

// The buffers' owner is released with the failed call: the rank that never called has said that it does not use them.
TEST_F(CudaIpc, ALargeCallThatOneRankNeverMakesKeepsNobodysBuffers) {
  Settings settings;
  settings.timeout = 1;
  run(
      {3, 1},
      [&](Communicator& world, WorldRank& rank) {
        OnDevice data(0, floats(large, 1.0f)), out(0, 4 * large);
        rank.play(allreduce_of(data, out));
        const auto done = [&](int who) { return "failed on " + std::to_string(who); };
        const auto store = make_file_store(folder_.path());
        if (rank.rank() != 1) {
          auto owner = std::make_shared<int>();
          const std::weak_ptr<int> still_there = owner;
          const Work work = world.allreduce(data.buffer(DType::f32), out.buffer(DType::f32), sum,
                                            {.algorithm = "cudaipc", .keep = std::move(owner)});
          expect_error([&] { work.wait(); }, Code::timeout, "rank 1 on");
          EXPECT_TRUE(comes_true([&] { return still_there.expired(); })) << "the buffers are kept for ever";
          store->set(done(rank.rank()), "1");
        }
        for (const int who : {0, 2}) store->wait(done(who), deadline_in(60s));
      },
      settings);
}

TEST_F(CudaIpc, TheDeadRankIsNamedByEverySurvivor) {
  constexpr int size = 4, victim = 2;
  Fleet fleet = begin({size, 1}, [&](Communicator&, WorldRank& rank) {
    OnDevice data(0, floats(large, 1.0f)), out(0, 4 * large);
    try {
      for (int i = 0;; ++i) {
        rank.play(allreduce_of(data, out));
        if (i == 0) say_going(folder_.path(), rank.rank());
      }
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), Code::peer_lost) << error.what();
      EXPECT_EQ(error.culprit(), victim) << error.what();
    }
  });
  wait_until_going(folder_.path(), size);
  std::this_thread::sleep_for(20ms);
  fleet.expect_success_without(victim);
}

// The rank dies while work for the others is still pending on its device. The others' streams must not wait for that
// work: their memory can be freed, and freeing waits for all work on the streams.
TEST_F(CudaIpc, ARankThatDiesBeforeItsInputIsReadyHoldsNobodysStream) {
  constexpr int size = 3, victim = 1;
  for (const std::size_t count : {std::size_t{100}, large}) {
    const std::string folder = folder_.path() + "/" + std::to_string(count);
    Fleet fleet = begin({size, 1}, [&](Communicator&, WorldRank& rank) {
      FakeAccelerator& gpu = fake_accelerator();
      OnDevice data(0, floats(count, 1.0f)), out(0, 4 * count);
      rank.play(allreduce_of(data, out));
      const auto gate = rank.rank() == victim ? gpu.hold({nullptr, 0}) : nullptr;
      const Work work = rank.begin(allreduce_of(data, out));
      say_going(folder, rank.rank());
      expect_error([&] { work.wait(); }, Code::peer_lost, "rank 1");
    });
    wait_until_going(folder, size);
    fleet.expect_success_without(victim);
  }
}

// Rank 1 dies in a call in which rank 2's device is slow and still writes to the result of rank 0. Rank 0 gets the
// error, and so its buffer, only after these writes.
TEST_F(CudaIpc, AResultIsGivenBackWhenNobodyWritesToIt) {
  constexpr int size = 3, victim = 1, slow = 2;
  const std::string folder = folder_.path();
  Fleet fleet = begin({size, 1}, [&](Communicator&, WorldRank& rank) {
    FakeAccelerator& gpu = fake_accelerator();
    OnDevice data(0, floats(large, 1.0f)), out(0, 4 * large);
    rank.play(allreduce_of(data, out));
    const std::size_t before = gpu.moved_bytes();
    // The victim's device is stalled too. Otherwise the call might succeed before the death is known.
    gpu.stall(rank.rank() == slow || rank.rank() == victim);
    const Work work = rank.begin(allreduce_of(data, data));
    std::thread watcher([&] {
      while (gpu.moved_bytes() == before) std::this_thread::sleep_for(1ms);
      say_going(folder, rank.rank());  // its reduction is on the stream
      if (rank.rank() != slow) return;
      make_file_store(folder)->wait("the victim has gone", deadline_in(60s));
      std::this_thread::sleep_for(200ms);
      make_file_store(folder)->set("goes on", "1");
      gpu.stall(false);
    });
    expect_error([&] { work.wait(); }, Code::peer_lost, "rank 1");
    std::string word;
    EXPECT_TRUE(make_file_store(folder)->find("goes on", word)) << "somebody still writes to the result";
    watcher.join();
  });
  wait_until_going(folder, size);
  fleet.kill(victim);
  make_file_store(folder)->set("the victim has gone", "1");
  fleet.expect_success_without(victim);
}

}  // namespace
}  // namespace tutti::testing
