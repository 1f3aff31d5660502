// cudaipc between processes, over the fake accelerator: results of all kinds, direct and staged; what is cached of
// other processes' memory, in what order streams work, and what goes wrong.
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <set>
#include <thread>

#include "collectives/bootstrap/bootstrap.hpp"
#include "collectives/bootstrap/stores.hpp"
#include "tests/support/device_cases.hpp"
#include "tests/support/going.hpp"
#include "tests/support/processes.hpp"
#include "tests/support/thinned.hpp"
#include "transports/modules.hpp"

namespace tutti::testing {
namespace {

using namespace std::chrono_literals;

class CudaIpc : public ::testing::Test {
 protected:
  void SetUp() override {
    const auto names = provider_names(Settings());
    if (std::ranges::count(names, "cudaipc") == 0) GTEST_SKIP() << "this build has no modules";
  }
  struct Shape {
    int ranks, devices;
  };
  using Body = std::function<void(Communicator&, WorldRank&)>;
  /// Ranks as processes; what a body throws or EXPECTs is what they answer.
  void run(Shape shape, const Body& body, Settings settings = {}) {
    ++runs_;
    Fleet fleet(shape.ranks, [&](int rank) { return play(rank, shape, body, settings); });
    fleet.expect_success();
  }
  std::string play(int rank, Shape shape, const Body& body, const Settings& settings) {
    ::setenv("FAKE_DEVICES", std::to_string(shape.devices).c_str(), 1);
    use_fake_gpus().stumble(true);
    Bootstrap bootstrap;
    bootstrap.rank = bootstrap.local_rank = rank;
    bootstrap.size = bootstrap.local_size = shape.ranks;
    bootstrap.store = make_prefix_store(make_file_store(folder_.path()), "run/" + std::to_string(runs_));
    bootstrap.settings = settings;
    if (settings.timeout == 300) bootstrap.settings.timeout = 60;
    bootstrap.settings.job = folder_.path() + std::to_string(runs_);
    bootstrap.settings.secret = "ipc";
    bootstrap.settings.tuning = "off";
    Communicator world = Communicator::connect(bootstrap);
    world.use_backend("cudaipc");
    WorldRank self(world, rank % shape.devices, "cudaipc");
    body(world, self);
    return ::testing::Test::HasFailure() ? "see above" : "";
  }
  TemporaryFolder folder_;
  int runs_ = 0;
};

Collective allreduce_of(const OnDevice& in, const OnDevice& out) {
  Collective call;
  call.kind = Kind::allreduce;
  call.in = in.buffer(DType::f32);
  call.out = out.buffer(DType::f32);
  return call;
}

constexpr std::size_t large = 70'000;  // floats, which are read where they are

Data floats(std::size_t count, float value) {
  const std::vector<float> values(count, value);
  const auto* const bytes = reinterpret_cast<const std::byte*>(values.data());
  return {bytes, bytes + count * sizeof(float)};
}

TEST_F(CudaIpc, ReducesLikeTheReference) {
  for (const Shape shape : {Shape{1, 1}, Shape{2, 1}, Shape{4, 1}, Shape{4, 2}, Shape{3, 3}})
    run(shape, [](Communicator&, WorldRank& rank) {
      const std::size_t counts[] = {0, 1, 5, 1000, thinned ? 30'001u : 70'001u};
      std::size_t turn = 0;
      for (const Kind kind : {Kind::allreduce, Kind::reduce, Kind::reduce_scatter})
        for (int o = 0; o < op_count; ++o)
          for (int d = 0; d < dtype_count; ++d) {
            const auto op = static_cast<Op>(o);
            const auto dtype = static_cast<DType>(d);
            if (!supports(op, dtype)) continue;
            const bool variable = kind == Kind::reduce_scatter && turn % 3 == 0;
            Folded(rank, {kind, dtype, {op, 0.5}, counts[turn % 5], turn % 2 == 0, variable}).play();
            ++turn;
          }
    });
}

TEST_F(CudaIpc, MovesEveryBlockToItsPlace) {
  for (const Shape shape : {Shape{1, 1}, Shape{2, 1}, Shape{4, 1}, Shape{3, 3}})
    run(shape, [](Communicator&, WorldRank& rank) {
      for (const DType dtype : {DType::i8, DType::i16, DType::f64})
        for (const std::size_t count : {0u, 1u, 7u, 9001u})
          for (const bool variable : {false, true}) Moves(rank, dtype, count, variable).everything_but_barrier();
    });
}

// Large ones in place, and a folding factor, which go through the slots in several pieces.
TEST_F(CudaIpc, StagedPieces) {
  const std::size_t count = thinned ? 2'200'000 : 5'000'011;
  run({2, 1}, [count](Communicator&, WorldRank& rank) {
    Folded(rank, {Kind::allreduce, DType::f32, premul_sum(0.5), count, true, false}).play();
    Folded(rank, {Kind::reduce, DType::f32, premul_sum(0.25), count, false, false}).play();
    Folded(rank, {Kind::reduce_scatter, DType::f32, premul_sum(2.0), count / 2, true, false}).play();
    Moves(rank, DType::f32, count / 3, false).alltoall(true);
  });
}

TEST_F(CudaIpc, LargeOnesAreFoldedInParts) {
  const std::size_t count = thinned ? 300'001 : 2'000'001;
  for (const Shape shape : {Shape{2, 1}, Shape{4, 1}})
    run(shape, [count](Communicator& world, WorldRank& rank) {
      for (const bool in_place : {false, true}) {
        const auto sum = Folded(rank, {Kind::allreduce, DType::f32, avg, count, in_place, false}).play();
        const auto least = world.allreduce(static_cast<std::int64_t>(sum >> 1), tutti::min).wait();
        EXPECT_EQ(least, static_cast<std::int64_t>(sum >> 1)) << "the ranks got different bits";
      }
    });
}

TEST_F(CudaIpc, ManyCallsUnderWay) {
  run({4, 1}, [](Communicator& world, WorldRank& rank) {
    std::vector<OnDevice> data;
    std::vector<Work> works;
    for (std::size_t i = 0; i < 40; ++i) data.emplace_back(rank.device(), floats(i % 4 == 0 ? 200'000 : 100, 1.0f));
    for (const OnDevice& one : data) works.push_back(rank.begin(allreduce_of(one, one)));
    for (const Work& work : works) work.wait();
    for (const OnDevice& one : data) EXPECT_EQ(one.read(), floats(one.size() / sizeof(float), 4.0f));
    EXPECT_EQ(world.size(), 4);
  });
}

// Memory that was freed and given out again at the same address is other memory.
TEST_F(CudaIpc, MemoryIsOpenedOncePerAllocationAndNeverStale) {
  run({2, 1}, [](Communicator& world, WorldRank& rank) {
    FakeAccelerator& gpu = fake_accelerator();
    const int slots = gpu.open_handles();
    {
      OnDevice data(0, floats(large, 1.0f)), out(0, 4 * large);
      for (int i = 0; i < 5; ++i) {
        rank.play(allreduce_of(data, out));
        EXPECT_EQ(out.read(), floats(large, 2.0f));
      }
      Collective part = allreduce_of(data, out);
      part.in = data.part(400, 4 * large - 400, DType::f32);
      part.out = out.part(0, 4 * large - 400, DType::f32);
      rank.play(part);
      EXPECT_EQ(gpu.open_handles(), slots + 2) << "each of both allocations is opened once";
      world.barrier().wait();
    }
    std::set<std::byte*> places;
    for (int i = 0; i < 10; ++i) {
      OnDevice data(0, floats(large, 1.0f + static_cast<float>(i))), out(0, 4 * large);
      places.insert(data.data());
      rank.play(allreduce_of(data, out));
      EXPECT_EQ(out.read(), floats(large, 2.0f + 2.0f * static_cast<float>(i))) << i;
      world.barrier().wait();
    }
    EXPECT_LT(places.size(), 10u) << "no address came again, so nothing was shown";
    EXPECT_LE(gpu.open_handles(), slots + 2 + 2 * static_cast<int>(places.size())) << "stale ones are closed";
  });
}

TEST_F(CudaIpc, HandlesThatNobodyUsesAreClosed) {
  run({2, 1}, [](Communicator&, WorldRank& rank) {
    std::vector<OnDevice> all;
    for (int i = 0; i < 150; ++i) all.emplace_back(0, floats(large, 1.0f));
    OnDevice out(0, 4 * large);
    for (const OnDevice& one : all) rank.play(allreduce_of(one, out));
    EXPECT_LE(fake_accelerator().open_handles(), 70);
    rank.play(allreduce_of(all.front(), out));
    EXPECT_EQ(out.read(), floats(large, 2.0f));
  });
}

// A rank's kernel that is still at work on the buffer when the call is made; and one behind the call.
TEST_F(CudaIpc, StreamsWaitForOneAnother) {
  for (const std::size_t count : {100u, 200'000u})
    run({2, 1}, [count](Communicator& world, WorldRank& rank) {
      FakeAccelerator& gpu = fake_accelerator();
      OnDevice in(0, floats(count, 0.0f)), out(0, count * sizeof(float));
      const Stream stream{nullptr, 0};
      if (rank.rank() == 1) gpu.delay(stream, 50ms);
      std::byte* const seen = gpu.seen(in.data());
      gpu.run(stream, [seen, count] {
        const Data ones = floats(count, 1.0f);
        std::memcpy(seen, ones.data(), ones.size());
      });
      rank.play(allreduce_of(in, out));
      // What is written right after the call's end is not what others read.
      in.write(floats(count, 100.0f));
      EXPECT_EQ(out.read(), floats(count, 2.0f));
      world.barrier().wait();
    });
}

/// The error of a call: its code, and words of it.
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
  settings.connect_timeout = 50;  // that nobody waits for
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

// Whatever is called: slots, and nothing besides.
TEST_F(CudaIpc, TakesAtMost32MiBOfTheDevice) {
  run({2, 1}, [](Communicator& world, WorldRank& rank) {
    FakeAccelerator& gpu = fake_accelerator();
    Communicator other = world.dup();
    const std::size_t before = gpu.used_bytes();
    other.use_backend("cudaipc");
    const std::size_t slots = gpu.used_bytes() - before;
    EXPECT_LE(slots, 32u << 20);
    EXPECT_GT(slots, 0u);
    WorldRank self(other, rank.device(), "cudaipc");
    const std::size_t count = thinned ? 1'000'000 : 6'000'000;
    const OnDevice data(0, count * 4), out(0, count * 4);
    const std::size_t both = gpu.used_bytes();
    for (const Reduction& op : {sum, premul_sum(0.5)}) {
      Collective call = allreduce_of(data, out);
      call.op = op;
      self.play(call);
      self.play(allreduce_of(out, out));
      EXPECT_EQ(gpu.used_bytes(), both);
    }
    world.barrier().wait();
  });
}

// A rank that has its result gives back its slots only when the others have read them.
TEST_F(CudaIpc, LeavingRightAfterACall) {
  run({3, 1}, [](Communicator& world, WorldRank& rank) {
    const OnDevice data(0, floats(1000, 1.0f)), out(0, 4000);
    for (int i = 0; i < (thinned ? 5 : 25); ++i) {
      Communicator other = world.dup();
      other.use_backend("cudaipc");
      WorldRank(other, rank.device(), "cudaipc").play(allreduce_of(data, out));
      EXPECT_EQ(out.read(), floats(1000, 3.0f)) << i;
    }
  });
}

TEST_F(CudaIpc, ADeviceThatHasFailedIsTheErrorOfAll) {
  run({2, 2}, [](Communicator& world, WorldRank& rank) {
    OnDevice& data = *new OnDevice(rank.device(), floats(100, 1.0f));
    rank.play(allreduce_of(data, data));
    world.barrier().wait();  // the other one has ended it too
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

TEST_F(CudaIpc, TheDeadRankIsNamedByEverySurvivor) {
  constexpr int size = 4, victim = 2;
  ++runs_;
  Fleet fleet(size, [&](int number) {
    return play(number, {size, 1},
                [&](Communicator&, WorldRank& rank) {
                  OnDevice data(0, floats(100'000, 1.0f)), out(0, 400'000);
                  try {
                    for (int i = 0;; ++i) {
                      rank.play(allreduce_of(data, out));
                      if (i == 0) say_going(folder_.path(), number);
                    }
                  } catch (const Error& error) {
                    EXPECT_EQ(error.code(), Code::peer_lost) << error.what();
                    EXPECT_EQ(error.culprit(), victim) << error.what();
                  }
                },
                {});
  });
  wait_until_going(folder_.path(), size);
  std::this_thread::sleep_for(20ms);
  fleet.expect_success_without(victim);
}

// It dies while its device has still to do what the others wait for. Nothing of theirs waits for it then: the device's
// memory can be freed, which waits for all that is on its streams.
TEST_F(CudaIpc, ARankThatDiesBeforeItsInputIsReadyHoldsNobodysStream) {
  constexpr int size = 3, victim = 1;
  for (const std::size_t count : {100u, 100'000u}) {
    ++runs_;
    Fleet fleet(size, [&](int number) {
      return play(number, {size, 1},
                  [&](Communicator&, WorldRank& rank) {
                    FakeAccelerator& gpu = fake_accelerator();
                    OnDevice data(0, floats(count, 1.0f)), out(0, 4 * count);
                    rank.play(allreduce_of(data, out));
                    const auto gate = number == victim ? gpu.hold({nullptr, 0}) : nullptr;
                    const Work work = rank.begin(allreduce_of(data, out));
                    say_going(folder_.path() + "/" + std::to_string(count), number);
                    expect_error([&] { work.wait(); }, Code::peer_lost, "rank 1");
                  },
                  {});
    });
    wait_until_going(folder_.path() + "/" + std::to_string(count), size);
    fleet.expect_success_without(victim);
  }
}

}  // namespace
}  // namespace tutti::testing
