// NCCL's collectives between processes, over the fakes: results, order over two communicators, and everything that goes
// wrong in NCCL: refusals, failures while a call is under way, calls that never end.
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <optional>
#include <random>
#include <sstream>
#include <thread>

#include "collectives/bootstrap/bootstrap.hpp"
#include "collectives/bootstrap/stores.hpp"
#include "collectives/tutti.hpp"
#include "tests/support/fake_gpus.hpp"
#include "tests/support/going.hpp"
#include "tests/support/processes.hpp"
#include "tests/support/reference.hpp"
#include "transports/modules.hpp"

namespace tutti::testing {
namespace {

using namespace std::chrono_literals;

/// What the environment tells the fakes.
using Told = std::vector<std::pair<const char*, std::string>>;

class NcclWorld : public ::testing::Test {
 protected:
  void SetUp() override {
    const auto names = provider_names(Settings());
    if (std::ranges::count(names, "nccl") == 0) GTEST_SKIP() << "this build has no nccl (TUTTI_WITH_NCCL)";
  }

  /// Ranks as processes, with the backend nccl.
  using Body = std::function<std::string(Communicator&)>;
  void run(int size, const Body& body, const Told& told = {}, Settings settings = {}) {
    ++runs_;
    Fleet fleet(size, [&](int rank) { return play({rank, size}, body, told, settings); });
    fleet.expect_success();
  }

  struct Self {
    int rank, size;
  };
  std::string play(Self self, const Body& body, const Told& told, const Settings& settings) {
    for (const auto& [name, value] : told) ::setenv(name, value.c_str(), 1);
    Bootstrap bootstrap;
    bootstrap.rank = bootstrap.local_rank = self.rank;
    bootstrap.size = bootstrap.local_size = self.size;
    bootstrap.store = make_prefix_store(make_file_store(folder_.path()), "run/" + std::to_string(runs_));
    bootstrap.settings = with_fake_nccl(settings);
    if (bootstrap.settings.timeout == 300) bootstrap.settings.timeout = 60;
    bootstrap.settings.job = folder_.path();
    bootstrap.settings.secret = "nccl";
    bootstrap.settings.tuning = "off";
    Communicator world = Communicator::connect(bootstrap);
    world.use_backend("nccl");
    return body(world);
  }
  TemporaryFolder folder_;
  int runs_ = 0;  ///< of fleets
};

const CallOptions by_nccl{.algorithm = "nccl"};

OnDevice floats(int device, std::size_t count, float value) {
  const std::vector<float> values(count, value);
  const auto* const bytes = reinterpret_cast<const std::byte*>(values.data());
  return {device, std::vector<std::byte>(bytes, bytes + count * sizeof(float))};
}

std::string wrong(const OnDevice& data, float expected) {
  const auto bytes = data.read();
  for (std::size_t i = 0; i < bytes.size() / sizeof(float); ++i)
    if (const double value = real_at(DType::f32, bytes.data(), i); value != static_cast<double>(expected))
      return "element " + std::to_string(i) + " is " + std::to_string(value) + ", not " + std::to_string(expected);
  return {};
}

/// The error of `call`, and whether its text has all of `words`: "" or what is wrong.
std::string fails(const std::function<void()>& call, Code code, const std::vector<std::string>& words) {
  try {
    call();
  } catch (const Error& error) {
    const std::string text = error.what();
    if (error.code() != code) return "code " + std::string(name(error.code())) + ": " + text;
    for (const std::string& word : words)
      if (text.find(word) == text.npos) return "'" + word + "' is not in: " + text;
    return {};
  }
  return "it did not fail";
}

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

std::string launches(int device) {
  std::vector<std::uint64_t> names(1000);
  names.resize(
      of_fake_nccl<std::size_t(int, std::uint64_t*, std::size_t)>("fake_nccl_launches")(device, names.data(), 1000));
  std::ostringstream text;
  for (const std::uint64_t one : names) text << one << ' ';
  return text.str();
}

// What the ranks of a world of four launch, each in an order of its own: "" or how they differ.
std::string differing_launches(Communicator& world, const std::string& folder) {
  Communicator other = world.dup();
  other.use_backend("nccl");
  std::minstd_rand random(static_cast<unsigned>(world.rank()) + 1);
  std::vector<OnDevice> data;
  for (int i = 0; i < 60; ++i) data.push_back(floats(world.rank(), 100, 1.0f));
  std::vector<Work> works;
  for (int round = 0; round < 10; ++round) {  // three calls of each, in an order of this rank's own
    std::vector<int> second = {0, 0, 0, 1, 1, 1};
    std::ranges::shuffle(second, random);
    for (const int one : second)
      works.push_back((one == 1 ? other : world).allreduce(data[works.size()].buffer(DType::f32), tutti::sum, by_nccl));
  }
  std::ranges::shuffle(works, random);
  for (const Work& work : works) work.wait();
  for (const OnDevice& one : data)
    if (auto bad = wrong(one, 4.0f); !bad.empty()) return bad;
  const auto store = make_file_store(folder);
  const std::string mine = launches(world.rank()), first = store->set_once("launches", mine);
  return mine == first ? "" : "launched " + mine + "\nbut another rank " + first;
}

TEST_F(NcclWorld, TwoCommunicatorsLaunchInOneOrder) {
  run(4, [&](Communicator& world) { return differing_launches(world, folder_.path()); });
}

// NCCL launches on a thread of its own, some time after it was asked.
TEST_F(NcclWorld, TwoCommunicatorsThatAreLaunchedLaterAreSoInOneOrder) {
  run(4, [&](Communicator& world) { return differing_launches(world, folder_.path()); },
      {{"FAKE_NCCL_SLOW_LAUNCH", "1"}});
}

// The same without agreement, which shows that the fake notices.
TEST_F(NcclWorld, InTheOrderOfTheCallsTheyMayWaitForOneAnother) {
  Settings settings;
  settings.nccl_order = "issued";
  run(
      2,
      [](Communicator& world) -> std::string {
        Communicator other = world.dup();
        other.use_backend("nccl");
        OnDevice a = floats(world.rank(), 100, 1.0f), b = floats(world.rank(), 100, 1.0f);
        world.allreduce(a.buffer(DType::f32), tutti::sum, by_nccl).wait();
        other.allreduce(b.buffer(DType::f32), tutti::sum, by_nccl).wait();
        const bool first = world.rank() == 0;
        const CallOptions brief{.timeout = 2, .algorithm = "nccl"};
        Work one = (first ? world : other).allreduce((first ? a : b).buffer(DType::f32), tutti::sum, brief);
        std::this_thread::sleep_for(100ms);
        Work two = (first ? other : world).allreduce((first ? b : a).buffer(DType::f32), tutti::sum, brief);
        const auto both = [&] {
          one.wait();
          two.wait();
        };
        return fails(both, Code::timeout, {});
      },
      {}, settings);
}

// A call that waits to be proposed, behind one that was launched early, is launched early itself once its communicator
// is the only one left; the other rank, which has two, needs its time all the same.
TEST_F(NcclWorld, ACommunicatorThatGoesLeavesNoCallWithoutItsTime) {
  run(2, [](Communicator& world) -> std::string {
    Communicator aside = world.dup();
    std::optional<Communicator> other = aside.dup();
    const OnDevice a = floats(world.rank(), 100, 1.0f), b = floats(world.rank(), 100, 1.0f);
    const OnDevice warm = floats(world.rank(), 100, 1.0f);
    const auto summed = [&](const OnDevice& one) {
      return world.allreduce(one.buffer(DType::f32), tutti::sum, by_nccl);
    };
    summed(warm).wait();
    Work first, second;
    const bool ahead = world.rank() == 0;
    if (ahead) first = summed(a);
    other->use_backend("nccl");
    if (ahead) second = summed(b);
    if (ahead) other.reset();
    for (int i = 0; i < 20; ++i) aside.barrier().wait();
    if (!ahead) first = summed(a);
    if (!ahead) second = summed(b);
    first.wait();
    second.wait();
    if (auto bad = wrong(a, 2.0f); !bad.empty()) return bad;
    return wrong(b, 2.0f);
  });
}

TEST_F(NcclWorld, AFailureWhileACallIsUnderWayIsTheErrorOfAll) {
  run(4,
      [](Communicator& world) -> std::string {
        OnDevice data = floats(world.rank(), 1000, 1.0f);
        for (int i = 0; i < 2; ++i) world.allreduce(data.buffer(DType::f32), tutti::sum, by_nccl).wait();
        world.barrier().wait();  // the others have ended both too
        const auto call = [&] { world.allreduce(data.buffer(DType::f32), tutti::sum, by_nccl).wait(); };
        if (auto bad = fails(call, Code::peer_lost, {"rank 1", "nccl", "remote process exited", "told to fail"});
            !bad.empty())
          return bad;
        return fails(call, Code::peer_lost, {"told to fail"});  // for ever
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
        // Never freed: NCCL keeps it.
        OnDevice& data = *new OnDevice(floats(world.rank(), 1000, 1.0f));
        const auto call = [&] { world.allreduce(data.buffer(DType::f32), tutti::sum, by_nccl).wait(); };
        return fails(call, Code::timeout, {"allreduce"});
      },
      {{"FAKE_NCCL_HANG", "0:0"}, {"FAKE_NCCL_SLOW_ABORT", "1000"}}, settings);
}

// What is left of a call on NCCL is ended by a thread of its own, while the rank's other communicators go on: one call
// after the other, until the abort that takes two seconds is over.
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
  shared.nccl_shared_gpu = "on";
  refused({{"FAKE_DEVICES", "1"}}, {}, {"ranks 0 and 1 share fake-0", "NCCL_MULTI_RANK_GPU_ENABLE=1"});
  refused({{"FAKE_DEVICES", "1"}}, shared, {"Duplicate GPU detected"});
  refused({{"FAKE_DEVICES", "1"}, {"NCCL_MULTI_RANK_GPU_ENABLE", "1"}}, {}, {});
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
    world.barrier().wait();  // the other one has ended it too
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
    ::setenv("FAKE_NCCL_VERSION", "21705", 1);
    const std::string why = find_provider("nccl", with_fake_nccl()).reason;
    return why.find("NCCL 2.17.5, and 2.18.0 or later is needed") == why.npos ? why : "";
  });
  fleet.expect_success();
}

}  // namespace
}  // namespace tutti::testing
