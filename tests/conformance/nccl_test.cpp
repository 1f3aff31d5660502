// The nccl backend by itself, over a fake NCCL and a fake accelerator: every kind, dtype and operator against a
// reference.
#include <gtest/gtest.h>

#include <algorithm>

#include "tests/support/backend_ranks.hpp"
#include "tests/support/fake_gpus.hpp"
#include "tests/support/reference.hpp"

namespace tutti::testing {
namespace {

using Data = std::vector<std::byte>;

class Nccl : public WithBackend {
 protected:
  Nccl() : WithBackend("nccl", with_fake_nccl()) { use_fake_gpus().stumble(true); }
};

struct Fold1 {
  Kind kind;
  DType dtype;
  Reduction op;
  std::size_t count;
  bool in_place, variable;
};

/// Plays one reduction and compares.
class Folded {
 public:
  Folded(BackendRank& rank, const Fold1& one)
      : rank_(rank), one_(one), n_(static_cast<std::size_t>(rank.size())), me_(static_cast<std::size_t>(rank.rank())) {
    counts_.assign(n_, one.count);
    if (one.variable)
      for (std::size_t r = 0; r < n_; ++r) counts_[r] = one.count * (r % 3);
    for (const std::size_t count : counts_) total_ += count;
    if (one.kind != Kind::reduce_scatter) total_ = one.count;
    for (std::size_t r = 0; r < n_; ++r) inputs_.push_back(random_data(one.dtype, total_, one.count * 100 + r));
  }

  std::uint64_t play() {
    const bool scatters = one_.kind == Kind::reduce_scatter;
    const auto root = static_cast<int>(one_.count % n_);
    const std::size_t width = size_of(one_.dtype), first = scatters ? before() : 0;
    const std::size_t count = scatters ? counts_[me_] : total_;
    const bool gets = one_.kind != Kind::reduce || rank_.rank() == root;
    OnDevice in(rank_.rank(), inputs_[me_]), out(rank_.rank(), gets ? count * width : 0);
    const bool in_place = one_.in_place && gets && count > 0;
    Collective call;
    call.kind = one_.kind;
    call.in = in.buffer(one_.dtype);
    call.out = in_place ? in.part(first * width, count * width, one_.dtype) : out.buffer(one_.dtype);
    call.op = one_.op;
    call.root = one_.kind == Kind::reduce ? root : 0;
    call.variable = one_.variable;
    if (one_.variable) call.in_counts = counts_;
    const Status able = rank_.backend->supports(call, {});
    if (!able.ok()) throw std::runtime_error(text() + ": " + std::string(able.text()));
    rank_.play(call);
    if (!in_place) {
      EXPECT_EQ(in.read(), inputs_[me_]) << text() << " changed its input";
    }
    if (!gets) return 0;
    const Data result = in_place ? in.read(first * width, count * width) : out.read();
    EXPECT_EQ(check_fold(one_.dtype, one_.op, inputs_, first, result.data(), count), "") << text();
    return checksum(result.data(), result.size());
  }

 private:
  std::size_t before() const {
    std::size_t sum = 0;
    for (std::size_t r = 0; r < me_; ++r) sum += counts_[r];
    return sum;
  }
  std::string text() const {
    return std::string(name(one_.kind)) + " " + std::string(name(one_.op.op)) + " " + std::string(name(one_.dtype)) +
           " count " + std::to_string(one_.count) + " ranks " + std::to_string(n_) +
           (one_.variable ? " variable" : "") + (one_.in_place ? " in place" : "");
  }

  BackendRank& rank_;
  const Fold1 one_;
  const std::size_t n_, me_;
  std::vector<std::size_t> counts_;
  std::size_t total_ = 0;
  std::vector<Data> inputs_;
};

TEST_F(Nccl, ReducesLikeTheReference) {
  for (const int p : {1, 2, 4}) {
    std::vector<std::vector<std::uint64_t>> sums(static_cast<std::size_t>(p));
    std::atomic<int> refused = 0;
    run(p, [&](BackendRank& rank) {
      const auto n = static_cast<std::size_t>(p);
      const std::size_t counts[] = {0, 1, n + 1, 1000, 20001};
      std::size_t turn = 0;
      for (const Kind kind : {Kind::allreduce, Kind::reduce, Kind::reduce_scatter})
        for (int o = 0; o < op_count; ++o)
          for (int d = 0; d < dtype_count; ++d) {
            const auto op = static_cast<Op>(o);
            const auto dtype = static_cast<DType>(d);
            if (!supports(op, dtype)) continue;
            if (dtype == DType::i16 || op == Op::band || op == Op::bor || op == Op::bxor) {
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

/// What moves, and is not folded: block(a, b) is what rank a has for rank b.
class Moves {
 public:
  Moves(BackendRank& rank, DType dtype, std::size_t count, bool variable)
      : rank_(rank), dtype_(dtype), count_(count), variable_(variable), me_(rank.rank()), root_(rank.size() / 2) {}

  void broadcast() {
    OnDevice out(me_, me_ == root_ ? block(root_, 0, count_) : Data(count_ * width()));
    play(Kind::broadcast, {}, out.buffer(dtype_));
    EXPECT_EQ(out.read(), block(root_, 0, count_));
  }
  void allgather(bool in_place) { gathered(Kind::allgather, in_place, true); }
  void gather(bool in_place) { gathered(Kind::gather, in_place, me_ == root_); }
  void scatter(bool in_place) {
    Data all;
    std::size_t before = 0;
    for (int b = 0; b < rank_.size(); ++b) {
      if (b == me_) before = all.size();
      append(all, block(root_, b, counted(b)));
      call_.in_counts.push_back(counted(b));
    }
    const Data mine = block(root_, me_, counted(me_));
    OnDevice in(me_, me_ == root_ ? all : Data{}), out(me_, mine.size());
    in_place = in_place && me_ == root_;
    play(Kind::scatter, in.buffer(dtype_), in_place ? in.part(before, mine.size(), dtype_) : out.buffer(dtype_));
    EXPECT_EQ(in_place ? in.read(before, mine.size()) : out.read(), mine);
  }
  void alltoall(bool in_place) {
    Data in, expected;
    for (int b = 0; b < rank_.size(); ++b) {
      append(in, block(me_, b, pair(me_, b)));
      append(expected, block(b, me_, pair(b, me_)));
      call_.in_counts.push_back(pair(me_, b));
      call_.out_counts.push_back(pair(b, me_));
    }
    in_place = in_place && !variable_;
    OnDevice from(me_, in), into(me_, expected.size());
    play(Kind::alltoall, from.buffer(dtype_), in_place ? from.buffer(dtype_) : into.buffer(dtype_));
    EXPECT_EQ(in_place ? from.read() : into.read(), expected);
  }
  void barrier() { play(Kind::barrier, {}, {}); }

 private:
  std::size_t width() const { return size_of(dtype_); }
  std::size_t counted(int rank) const { return variable_ ? count_ * static_cast<std::size_t>(rank % 3) : count_; }
  std::size_t pair(int a, int b) const {
    return variable_ ? (count_ + static_cast<std::size_t>(a + 2 * b)) % (count_ + 1) : count_;
  }
  Data block(int a, int b, std::size_t count) const {
    return random_data(dtype_, count, static_cast<std::uint64_t>(1000 + 50 * a + b));
  }
  static void append(Data& to, const Data& more) { to.insert(to.end(), more.begin(), more.end()); }

  void gathered(Kind kind, bool in_place, bool gets) {
    Data expected;
    std::size_t before = 0;
    for (int a = 0; a < rank_.size(); ++a) {
      if (a == me_) before = expected.size();
      append(expected, block(a, 0, counted(a)));
      call_.out_counts.push_back(counted(a));
    }
    const Data mine = block(me_, 0, counted(me_));
    OnDevice in(me_, mine), out(me_, gets ? expected.size() : 0);
    in_place = in_place && gets;
    if (in_place) {
      Data start(expected.size());
      std::ranges::copy(mine, start.begin() + static_cast<std::ptrdiff_t>(before));
      out.write(start);
    }
    play(kind, in_place ? out.part(before, mine.size(), dtype_) : in.buffer(dtype_), out.buffer(dtype_));
    EXPECT_TRUE(!gets || out.read() == expected) << name(kind) << " at rank " << me_;
  }
  void play(Kind kind, ConstBuffer in, Buffer out) {
    call_.kind = kind;
    call_.in = in;
    call_.out = out;
    call_.root = kind == Kind::allgather || kind == Kind::alltoall || kind == Kind::barrier ? 0 : root_;
    call_.variable = variable_ && kind != Kind::broadcast && kind != Kind::barrier;
    if (!call_.variable) call_.in_counts = call_.out_counts = {};
    rank_.play(call_);
    call_ = {};
  }

  BackendRank& rank_;
  const DType dtype_;
  const std::size_t count_;
  const bool variable_;
  const int me_, root_;
  Collective call_;
};

TEST_F(Nccl, MovesEveryBlockToItsPlace) {
  for (const int p : {1, 2, 4})
    run(p, [&](BackendRank& rank) {
      for (const DType dtype : {DType::i8, DType::i16, DType::bf16, DType::f64})
        for (const std::size_t count : {0u, 1u, 7u, 9001u})
          for (const bool variable : {false, true}) {
            Moves moves(rank, dtype, count, variable);
            moves.broadcast();
            for (const bool in_place : {false, true}) {
              moves.allgather(in_place);
              moves.gather(in_place);
              moves.scatter(in_place);
              moves.alltoall(in_place);
            }
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
    Collective call;
    call.kind = Kind::allreduce;
    call.in = call.out = data.buffer(DType::f32);
    Report report;
    rank.backend->start(call, {1, signature(call, me, 2), {}, nullptr, *ready}, report);
    EXPECT_TRUE(rank.until([&] { return report.ends > 0; }));
    EXPECT_EQ(real_at(DType::f32, data.read().data(), 0), 3.0);
  });
}

}  // namespace
}  // namespace tutti::testing
