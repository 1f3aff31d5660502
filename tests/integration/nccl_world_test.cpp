// NCCL's collectives between processes, over the fakes: results, and failures in NCCL: refusals, failures of a call in
// flight, calls that never end.
#include <chrono>
#include <thread>

#include "tests/support/going.hpp"
#include "tests/support/nccl_world.hpp"

namespace tutti::testing {
namespace {

using namespace std::chrono_literals;

std::string alive() {
  const int count = of_fake_nccl<int()>("fake_nccl_alive")();
  return count == 0 ? std::string() : std::to_string(count) + " communicators of NCCL's are left";
}

TEST_F(NcclWorld, CallsOfProcesses) {
  for (const int size : {2, 4})
    run(size, [size](Communicator& world) -> std::string {
      OnDevice data = floats(world.rank(), 3000, 1.0f + static_cast<float>(world.rank()));
      OnDevice all(world.rank(), 3000 * sizeof(float) * static_cast<std::size_t>(size));
      Work sum = world.allreduce(data.buffer(DType::f32), tutti::sum, by_nccl);
      Work gathered = world.allgather(data.buffer(DType::f32), all.buffer(DType::f32), by_nccl);
      gathered.wait();
      sum.wait();
      const auto total = static_cast<float>(size * (size + 1) / 2);
      if (auto bad = wrong(data, total); !bad.empty()) return bad;
      return wrong(all, total);
    });
}

TEST_F(NcclWorld, AFailureWhileACallIsUnderWayIsTheErrorOfAll) {
  run(4,
      [](Communicator& world) -> std::string {
        OnDevice data = floats(world.rank(), 1000, 1.0f);
        for (int i = 0; i < 2; ++i) world.allreduce(data.buffer(DType::f32), tutti::sum, by_nccl).wait();
        world.barrier().wait();  // the others have completed both calls too
        const auto call = [&] { world.allreduce(data.buffer(DType::f32), tutti::sum, by_nccl).wait(); };
        if (auto bad = fails(call, Code::peer_lost, {"rank 1", "nccl", "remote process exited", "told to fail"});
            !bad.empty())
          return bad;
        return fails(call, Code::peer_lost, {"told to fail"});  // every later call fails too
      },
      {{"FAKE_NCCL_FAIL", "1:2"}});
}

TEST_F(NcclWorld, ACallThatNeverEndsIsEndedByItsDeadline) {
  Settings settings;
  settings.timeout = 1;
  run(
      2,
      [](Communicator& world) -> std::string {
        OnDevice data = floats(world.rank(), 1000, 1.0f);
        const auto call = [&] { world.allreduce(data.buffer(DType::f32), tutti::sum, by_nccl).wait(); };
        if (auto bad = fails(call, Code::timeout, {"allreduce", "nccl"}); !bad.empty()) return bad;
        return alive();
      },
      {{"FAKE_NCCL_HANG", "0:0"}}, settings);
}

TEST_F(NcclWorld, AnAbortThatTakesLongIsNotWaitedFor) {
  Settings settings;
  settings.timeout = 1;
  run(
      2,
      [](Communicator& world) -> std::string {
        // Never freed, because NCCL still uses it.
        OnDevice& data = *new OnDevice(floats(world.rank(), 1000, 1.0f));
        const auto call = [&] { world.allreduce(data.buffer(DType::f32), tutti::sum, by_nccl).wait(); };
        return fails(call, Code::timeout, {"allreduce"});
      },
      {{"FAKE_NCCL_HANG", "0:0"}, {"FAKE_NCCL_SLOW_ABORT", "1000"}}, settings);
}

// A thread of its own aborts NCCL's call, which takes two seconds. Meanwhile the rank makes calls on another
// communicator, one after the other.
TEST_F(NcclWorld, OtherCommunicatorsGoOnWhileOneIsAborted) {
  run(2,
      [](Communicator& world) -> std::string {
        OnDevice data = floats(world.rank(), 1000, 1.0f);
        Communicator beside = world.dup();
        const CallOptions brief{.timeout = 1, .algorithm = "nccl"};
        const Work work = world.allreduce(data.buffer(DType::f32), tutti::sum, brief);
        const auto ending = std::chrono::steady_clock::now() + 1500ms;
        int calls = 0;
        for (int over = 0; over < 2;) {
          const bool aborting = std::chrono::steady_clock::now() > ending;
          over = beside.allreduce(work.done() ? 1 : 0).wait();
          calls += aborting ? 1 : 0;
        }
        if (calls < 20) return "only " + std::to_string(calls) + " calls while NCCL was aborting";
        return fails([&] { work.wait(); }, Code::timeout, {"allreduce"});
      },
      {{"FAKE_NCCL_HANG", "0:0"}, {"FAKE_NCCL_SLOW_ABORT", "2"}});
}

TEST_F(NcclWorld, WhatNcclRefusesIsSaid) {
  run(2,
      [](Communicator& world) -> std::string {
        OnDevice data = floats(world.rank(), 10, 1.0f);
        const auto call = [&] { world.allreduce(data.buffer(DType::f32), tutti::sum, by_nccl).wait(); };
        if (auto bad = fails(call, Code::resource, {"invalid usage", "the network is painted on"}); !bad.empty())
          return bad;
        return alive();
      },
      {{"FAKE_NCCL_REFUSE", "the network is painted on"}});
}

TEST_F(NcclWorld, ACommunicatorThatIsNeverReadyIsWaitedForUntilItsTime) {
  Settings settings;
  settings.connect_timeout = 2;
  run(
      2,
      [](Communicator& world) -> std::string {
        OnDevice data = floats(world.rank(), 10, 1.0f);
        const auto call = [&] { world.allreduce(data.buffer(DType::f32), tutti::sum, by_nccl).wait(); };
        if (auto bad = fails(call, Code::timeout, {"NCCL 2.27.3", "TUTTI_CONNECT_TIMEOUT"}); !bad.empty()) return bad;
        return alive();
      },
      {{"FAKE_NCCL_STALL", "1"}}, settings);
}

TEST_F(NcclWorld, RanksOfOneGpuAreRefusedWithTheReasonUnlessAllowed) {
  const auto refused = [&](const Told& told, Settings settings, const std::vector<std::string>& words) {
    ++runs_;
    Fleet fleet(2, [&](int rank) -> std::string {
      try {
        return play(
            {rank, 2},
            [&](Communicator& world) -> std::string {
              OnDevice data = floats(0, 10, 1.0f);
              world.allreduce(data.buffer(DType::f32), tutti::sum, by_nccl).wait();
              return words.empty() ? wrong(data, 2.0f) : "it was not refused";
            },
            told, settings);
      } catch (const Error& error) {
        const std::string text = error.what();
        for (const std::string& word : words)
          if (text.find(word) == text.npos) return "'" + word + "' is not in: " + text;
        return words.empty() ? text : "";
      }
    });
    fleet.expect_success();
  };
  Settings shared;
  shared.set("nccl_shared_gpu", "on", "test");
  refused({{"FAKE_DEVICES", "1"}}, {}, {"ranks 0 and 1 share fake-0", "NCCL_MULTI_RANK_GPU_ENABLE=1"});
  refused({{"FAKE_DEVICES", "1"}}, shared, {"Duplicate GPU detected"});
  refused({{"FAKE_DEVICES", "1"}, {"NCCL_MULTI_RANK_GPU_ENABLE", "1"}}, {}, {});
}

// One rank's call has ended, and the rank has exited. The device of the other rank has all data, but still works on it.
TEST_F(NcclWorld, ACallEndsWellThoughARankThatTookPartHasExited) {
  for (const int first : {0, 1})
    run(2,
        [first](Communicator& world) -> std::string {
          OnDevice data = floats(world.rank(), 100, 1.0f);
          for (int i = 0; i < 2; ++i) world.allreduce(data.buffer(DType::f32), tutti::sum, by_nccl).wait();
          if (world.rank() == first) ::_exit(0);
          return wrong(data, 4.0f);
        },
        {{"FAKE_NCCL_LATE", std::to_string(1 - first) + ":1"}});
}

TEST_F(NcclWorld, CallsThatDoNotMatchAreToldApart) {
  run(2, [](Communicator& world) -> std::string {
    OnDevice data = floats(world.rank(), 100, 1.0f);
    world.allreduce(data.buffer(DType::f32), tutti::sum, by_nccl).wait();
    const std::size_t count = world.rank() == 0 ? 100 : 50;
    const auto call = [&] {
      world.allreduce(data.part(0, count * sizeof(float), DType::f32), tutti::sum, by_nccl).wait();
    };
    return fails(call, Code::mismatch, {"count 100", "count 50"});
  });
}

TEST_F(NcclWorld, ADeviceThatHasFailedIsTheErrorOfAll) {
  run(2, [](Communicator& world) -> std::string {
    OnDevice& data = *new OnDevice(floats(world.rank(), 100, 1.0f));
    world.allreduce(data.buffer(DType::f32), tutti::sum, by_nccl).wait();
    world.barrier().wait();  // the other rank has completed its call too
    if (world.rank() == 1) fake_accelerator().break_device(1, "an illegal memory access was encountered");
    const auto call = [&] { world.allreduce(data.buffer(DType::f32), tutti::sum, by_nccl).wait(); };
    return fails(call, Code::internal, {"illegal memory access"});
  });
}

TEST_F(NcclWorld, ABufferOfAnotherDeviceIsRefused) {
  run(2, [](Communicator& world) -> std::string {
    OnDevice data = floats(7, 100, 1.0f);
    const auto call = [&] { world.allreduce(data.buffer(DType::f32), tutti::sum, by_nccl).wait(); };
    return fails(call, Code::invalid, {"cuda:7", "CUDA_VISIBLE_DEVICES"});
  });
}

TEST_F(NcclWorld, TheDeadRankIsNamedByEverySurvivor) {
  constexpr int size = 4, victim = 2;
  Fleet fleet(size, [&](int rank) {
    return play({rank, size},
                [&](Communicator& world) -> std::string {
                  OnDevice data = floats(rank, 100'000, 1.0f);
                  try {
                    for (int i = 0;; ++i) {
                      world.allreduce(data.buffer(DType::f32), tutti::max, by_nccl).wait();
                      if (i == 0) say_going(folder_.path(), rank);
                    }
                  } catch (const Error& error) {
                    if (error.code() == Code::peer_lost && error.culprit() == victim) return {};
                    return error.what();
                  }
                },
                {}, {});
  });
  wait_until_going(folder_.path(), size);
  std::this_thread::sleep_for(20ms);
  fleet.expect_success_without(victim);
}

TEST_F(NcclWorld, AnOldNcclIsNotViable) {
  Fleet fleet(1, [](int) -> std::string {
    ::setenv("FAKE_NCCL_VERSION", "21806", 1);
    const std::string why = find_provider("nccl", with_fake_nccl()).reason;
    return why.find("NCCL 2.18.6, and 2.19.0 or later is needed") == why.npos ? why : "";
  });
  fleet.expect_success();
}

}  // namespace
}  // namespace tutti::testing
