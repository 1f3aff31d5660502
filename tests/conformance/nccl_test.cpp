// The nccl backend by itself, over a fake NCCL and a fake accelerator: every kind, dtype and operator against a
// reference.
#include <gtest/gtest.h>

#include "tests/support/backend_ranks.hpp"
#include "tests/support/device_cases.hpp"

namespace tutti::testing {
namespace {

/// A backend by itself: rank i on device i.
class Alone final : public DeviceRank {
 public:
  explicit Alone(BackendRank& rank) : rank_(rank) {}
  int rank() const override { return rank_.rank(); }
  int size() const override { return rank_.size(); }
  int device() const override { return rank_.rank(); }
  void play(const Collective& call) override {
    const Status able = rank_.backend->supports(call, {});
    if (!able.ok()) throw std::runtime_error(std::string(able.text()));
    rank_.play(call);
  }

 private:
  BackendRank& rank_;
};

class Nccl : public WithBackend {
 protected:
  Nccl() : WithBackend("nccl", with_fake_nccl()) { use_fake_gpus().stumble(true); }
};

TEST_F(Nccl, ReducesLikeTheReference) {
  for (const int p : {1, 2, 4}) {
    std::vector<std::vector<std::uint64_t>> sums(static_cast<std::size_t>(p));
    std::atomic<int> refused = 0;
    run(p, [&](BackendRank& backend) {
      Alone rank(backend);
      const auto n = static_cast<std::size_t>(p);
      const std::size_t counts[] = {0, 1, n + 1, 1000, 20001};
      std::size_t turn = 0;
      for (const Kind kind : {Kind::allreduce, Kind::reduce, Kind::reduce_scatter})
        for (int o = 0; o < op_count; ++o)
          for (int d = 0; d < dtype_count; ++d) {
            const auto op = static_cast<Op>(o);
            const auto dtype = static_cast<DType>(d);
            if (!supports(op, dtype)) continue;
            if (dtype == DType::i16 || dtype == DType::u16 || op == Op::band || op == Op::bor || op == Op::bxor) {
              ++refused;
              continue;
            }
            const bool variable = kind == Kind::reduce_scatter && turn % 3 == 0;
            const std::uint64_t sum =
                Folded(rank, {kind, dtype, {op, 0.5}, counts[turn % 5], turn % 2 == 0, variable}).play();
            if (kind == Kind::allreduce) sums[static_cast<std::size_t>(rank.rank())].push_back(sum);
            ++turn;
          }
    });
    EXPECT_GT(refused, 0);
    for (const auto& other : sums) EXPECT_EQ(other, sums.front()) << "the ranks got different bits, of " << p;
  }
}

TEST_F(Nccl, MovesEveryBlockToItsPlace) {
  for (const int p : {1, 2, 4})
    run(p, [&](BackendRank& backend) {
      Alone rank(backend);
      for (const DType dtype : {DType::i8, DType::i16, DType::bf16, DType::f64})
        for (const std::size_t count : {0u, 1u, 7u, 9001u})
          for (const bool variable : {false, true}) {
            Moves moves(rank, dtype, count, variable);
            moves.everything_but_barrier();
            moves.barrier();
          }
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

// A kernel of the caller's that is still busy with the buffer when the call is made.
TEST_F(Nccl, WaitsForTheCallersStream) {
  FakeAccelerator& gpus = use_fake_gpus();
  run(2, [&](BackendRank& rank) {
    const int me = rank.rank();
    OnDevice data(me, Data(4));
    const Owned<Stream> stream(gpus, gpus.make_stream(me));
    const Owned<Event> ready(gpus, gpus.make_event(me));
    gpus.delay(*stream, std::chrono::milliseconds(50));
    std::byte* const seen = gpus.seen(data.data());
    gpus.run(*stream, [seen, me] {
      const float value = 1.0f + static_cast<float>(me);
      std::memcpy(seen, &value, sizeof value);
    });
    gpus.record(*ready, *stream);
    Report call;
    call.what.kind = Kind::allreduce;
    call.what.in = call.what.out = data.buffer(DType::f32);
    call.sequence = 1;
    call.summary = signature(call.what, me, 2);
    call.after = *ready;
    rank.backend->start(call);
    EXPECT_TRUE(rank.until([&] { return call.ends > 0; }));
    EXPECT_EQ(real_at(DType::f32, data.read().data(), 0), 3.0);
  });
}

// Memory of a device cannot be freed while one of its streams waits for the host; nor need it: the next one has it.
TEST_F(Nccl, AnAlltoallInPlaceEndsWhileAStreamIsHeld) {
  FakeAccelerator& gpus = use_fake_gpus();
  std::size_t taken = 0;
  for (int turn = 0; turn < 2; ++turn) {
    if (turn == 1) ::setenv("FAKE_NCCL_SLOW_LAUNCH", "1", 1);  // no piece is asked for before the last is launched
    run(2, [&](BackendRank& rank) {
      const int me = rank.rank();
      const auto block = [](std::size_t count, int from, int to) {
        return random_data(DType::f32, count, static_cast<std::uint64_t>(10 * from + to));
      };
      for (const std::size_t count : {std::size_t{100}, std::size_t{2'500'000}}) {  // the latter in two pieces
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
