// cudaipc between processes, over the fake accelerator: ranks that share a device, large calls, direct and staged; the
// cache of other processes' memory, and how much device memory the backend takes.
#include <functional>
#include <set>

#include "tests/support/comes_true.hpp"
#include "tests/support/ipc_world.hpp"
#include "tests/support/thinned.hpp"

namespace tutti::testing {
namespace {

constexpr std::size_t large = 70'000;  // in floats; so large that other ranks read the buffers directly

// Like the test in backend_conformance.cpp, where each rank has its own device.
TEST_F(CudaIpc, RanksThatShareADevice) {
  for (const Shape shape : {Shape{2, 1}, Shape{4, 1}, Shape{4, 2}})
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
      for (const std::size_t count : {1u, 9001u})
        for (const bool variable : {false, true}) Moves(rank, DType::i16, count, variable).everything_but_barrier();
    });
}

// Large calls in place, or with a premul_sum factor, go through the slots in several pieces.
TEST_F(CudaIpc, StagedPieces) {
  constexpr std::size_t count = thinned ? 2'200'000 : 5'000'011;
  run({2, 1}, [](Communicator&, WorldRank& rank) {
    Folded(rank, {Kind::allreduce, DType::f32, premul_sum(0.5), count, true, false}).play();
    Folded(rank, {Kind::reduce, DType::f32, premul_sum(0.25), count, false, false}).play();
    Folded(rank, {Kind::reduce_scatter, DType::f32, premul_sum(2.0), count / 2, true, false}).play();
    Moves(rank, DType::f32, count / 3, false).alltoall(true);
  });
}

TEST_F(CudaIpc, LargeOnesAreFoldedInParts) {
  constexpr std::size_t count = thinned ? 300'001 : 2'000'001;
  for (const Shape shape : {Shape{2, 1}, Shape{4, 1}})
    run(shape, [](Communicator& world, WorldRank& rank) {
      for (const bool in_place : {false, true}) {
        const auto sum = Folded(rank, {Kind::allreduce, DType::f32, avg, count, in_place, false}).play();
        const auto least = world.allreduce(static_cast<std::int64_t>(sum >> 1), tutti::min).wait();
        EXPECT_EQ(least, static_cast<std::int64_t>(sum >> 1)) << "the ranks got different bits";
      }
    });
}

// Each rank reads its part of every input and writes it to every result, so all P ranks read P N and write P N bytes.
TEST_F(CudaIpc, LargeOnesMoveNoMoreThanTheyMust) {
  constexpr std::size_t count = std::size_t{1} << 20, bytes = count * sizeof(float);
  for (const Shape shape : {Shape{2, 1}, Shape{4, 2}})
    run(shape, [](Communicator&, WorldRank& rank) {
      const OnDevice in(rank.device(), floats(count, 1.0f)), out(rank.device(), bytes);
      for (const OnDevice& result : {std::cref(out), std::cref(in)}) {
        const std::size_t before = fake_accelerator().moved_bytes();
        rank.play(allreduce_of(in, result));
        EXPECT_EQ(fake_accelerator().moved_bytes() - before, 2 * bytes);
      }
      EXPECT_EQ(in.read(), out.read());
    });
}

// Memory that was freed and allocated again at the same address must be opened anew.
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

// New memory may begin at another address, and include the addresses of several freed allocations.
TEST_F(CudaIpc, LargerMemoryAtAddressesThatWereFreed) {
  run({2, 1}, [](Communicator& world, WorldRank& rank) {
    int reached = 0;
    for (int i = 0; i < 5; ++i) {
      const std::byte* before = nullptr;
      {
        const OnDevice data(0, floats(large, 1.0f)), out(0, 4 * large);
        before = out.data();
        rank.play(allreduce_of(data, out));
        EXPECT_EQ(out.read(), floats(large, 2.0f));
      }
      world.barrier().wait();
      {
        const OnDevice data(0, floats(2 * large, 2.0f));
        reached += data.data() < before && before < data.data(data.size()) ? 1 : 0;
        rank.play(allreduce_of(data, data));
        EXPECT_EQ(data.read(), floats(2 * large, 4.0f)) << i;
      }
      world.barrier().wait();
    }
    EXPECT_GT(reached, 0) << "no memory reached over what had been there, so nothing was shown";
  });
}

// A process opens an allocation once for all communicators that use it, and closes it with the last of them.
TEST_F(CudaIpc, CommunicatorsShareWhatIsOpen) {
  run({2, 1}, [](Communicator& world, WorldRank& rank) {
    FakeAccelerator& gpu = fake_accelerator();
    const OnDevice data(0, floats(large, 1.0f)), out(0, 4 * large), third(0, 4 * large);
    const int slots = gpu.open_handles();
    {
      Communicator other = world.dup();
      other.use_backend("cudaipc");
      WorldRank there(other, rank.device(), "cudaipc");
      const Work one = rank.begin(allreduce_of(data, out)), two = there.begin(allreduce_of(data, third));
      one.wait();
      two.wait();
      EXPECT_EQ(out.read(), floats(large, 2.0f));
      EXPECT_EQ(third.read(), floats(large, 2.0f));
      EXPECT_EQ(gpu.open_handles(), 2 * slots + 3);
      world.barrier().wait();
    }
    EXPECT_TRUE(comes_true([&] { return gpu.open_handles() == slots + 3; })) << "only its slots have gone";
    rank.play(allreduce_of(out, third));
    EXPECT_EQ(third.read(), floats(large, 4.0f));
    world.barrier().wait();
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

// The backend allocates device memory for its slots, and nothing else, whatever is called.
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

// A rank that has its result frees its slots only after the other ranks have read them.
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

}  // namespace
}  // namespace tutti::testing
