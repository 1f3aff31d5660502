// Tests of the nccl backend alone, over a fake NCCL and accelerator; backend_conformance.cpp tests all backends.
#include <gtest/gtest.h>

#include "tests/support/backend_ranks.hpp"
#include "tests/support/fake_gpus.hpp"
#include "tests/support/reference.hpp"

namespace tutti::testing {
namespace {

class Nccl : public WithBackend {
 protected:
  Nccl() : WithBackend("nccl", with_fake_nccl()) { use_fake_gpus().stumble(true); }
};

TEST_F(Nccl, RefusesWhatItHasNot) {
  run(1, [](BackendRank& rank) {
    const OnDevice data(rank.rank(), 800);
    Collective call;
    call.kind = Kind::allreduce;
    for (const DType dtype : {DType::i16, DType::u16}) {
      call.in = call.out = data.buffer(dtype);
      EXPECT_EQ(rank.backend->supports(call, {}).code(), Code::unsupported) << name(dtype);
    }
    call.in = call.out = data.buffer(DType::i32);
    for (const Reduction op : {band, bor, bxor}) {
      call.op = op;
      EXPECT_EQ(rank.backend->supports(call, {}).code(), Code::unsupported) << name(op.op);
    }
    call.op = max;
    EXPECT_TRUE(rank.backend->supports(call, {}).ok());
  });
}

TEST_F(Nccl, LaunchesThatTakeALittleAreWaitedFor) {
  ::setenv("FAKE_NCCL_SLOW_LAUNCH", "1", 1);
  run(2, [&](BackendRank& rank) {
    OnDevice data(rank.rank(), random_data(DType::f32, 1000, 1));
    std::vector<Report*> reports;
    Collective call;
    call.kind = Kind::allreduce;
    call.in = call.out = data.buffer(DType::f32);
    for (int i = 0; i < 10; ++i) reports.push_back(&rank.start(call));
    EXPECT_TRUE(rank.until([&] { return reports.back()->ends > 0; }));
    for (const Report* one : reports) EXPECT_TRUE(one->ends == 1 && one->outcome.ok()) << one->outcome.text();
  });
  ::unsetenv("FAKE_NCCL_SLOW_LAUNCH");
}

// Device memory cannot be freed while a stream waits for the host, so scratch is kept and used by the next call.
TEST_F(Nccl, AnAlltoallInPlaceEndsWhileAStreamIsHeld) {
  FakeAccelerator& gpus = use_fake_gpus();
  std::size_t taken = 0;
  for (int turn = 0; turn < 2; ++turn) {
    if (turn == 1) ::setenv("FAKE_NCCL_SLOW_LAUNCH", "1", 1);  // launches are slow: pieces follow one another
    run(2, [&](BackendRank& rank) {
      const int me = rank.rank();
      const auto block = [](std::size_t count, int from, int to) {
        return random_data(DType::f32, count, static_cast<std::uint64_t>(10 * from + to));
      };
      for (const std::size_t count : {std::size_t{100}, std::size_t{2'500'000}}) {  // the larger count takes two pieces
        Data in = block(count, me, 0), out = block(count, 0, me);
        const Data more = block(count, me, 1), theirs = block(count, 1, me);
        in.insert(in.end(), more.begin(), more.end());
        out.insert(out.end(), theirs.begin(), theirs.end());
        const OnDevice data(me, in);
        const Owned<Stream> held(gpus, gpus.make_stream(me));
        const auto gate = gpus.hold(*held);
        Collective call;
        call.kind = Kind::alltoall;
        call.in = call.out = data.buffer(DType::f32);
        rank.play(call);
        EXPECT_TRUE(data.read() == out) << count;
      }
    });
    if (turn == 0) taken = gpus.used_bytes();
    EXPECT_EQ(gpus.used_bytes(), taken);
    EXPECT_GE(taken, 2 * (std::size_t{16} << 20)) << "what it went through is kept";
  }
  ::unsetenv("FAKE_NCCL_SLOW_LAUNCH");
}

}  // namespace
}  // namespace tutti::testing
