// The gloo backend by itself: every kind, algorithm, dtype and operator against a reference.
#include <gtest/gtest.h>

#include <algorithm>

#include "tests/support/backend_ranks.hpp"
#include "tests/support/reference.hpp"
#include "tests/support/thinned.hpp"

namespace tutti::testing {
namespace {

class Gloo : public WithBackend {
 protected:
  Gloo() : WithBackend("gloo") {}
};

/// One reduction: random inputs, the result at those who get one compared with the reference.
struct Fold1 {
  Kind kind;
  DType dtype;
  Reduction op;
  std::size_t count;
  std::string_view algorithm;
  bool in_place;
};

std::string text(const Fold1& one, int ranks) {
  return std::string(name(one.kind)) + " " + std::string(one.algorithm) + " " + std::string(name(one.op.op)) + " " +
         std::string(name(one.dtype)) + " count " + std::to_string(one.count) + " ranks " + std::to_string(ranks) +
         (one.in_place ? " in place" : "");
}

std::uint64_t play(BackendRank& rank, const Fold1& one) {
  const auto n = static_cast<std::size_t>(rank.size()), me = static_cast<std::size_t>(rank.rank());
  const int root = static_cast<int>(one.count % n);
  std::vector<Data> inputs;
  for (std::size_t r = 0; r < n; ++r) inputs.push_back(random_data(one.dtype, one.count, one.count * 100 + r));
  const bool gets = one.kind == Kind::allreduce || rank.rank() == root;
  Data in = inputs[me], out(gets ? in.size() : 0);
  const bool in_place = one.in_place && gets;
  if (in_place) out = in;
  Collective call;
  call.kind = one.kind;
  call.in = ConstBuffer(in_place ? out.data() : in.data(), one.count, one.dtype);
  call.out = Buffer(gets ? out.data() : nullptr, gets ? one.count : 0, one.dtype);
  call.op = one.op;
  call.root = one.kind == Kind::reduce ? root : 0;
  const Status able = rank.backend->supports(call, one.algorithm);
  if (!able.ok()) throw std::runtime_error(text(one, rank.size()) + ": " + std::string(able.text()));
  rank.play(call, one.algorithm);
  EXPECT_EQ(in, inputs[me]) << text(one, rank.size()) << " changed its input";
  if (!gets) return 0;
  EXPECT_EQ(check_fold(one.dtype, one.op, inputs, 0, out.data(), one.count), "") << text(one, rank.size());
  return checksum(out.data(), out.size());
}

TEST_F(Gloo, ReducesLikeTheReference) {
  for (const int p : {1, 2, 3, 4, 5, 8}) {
    std::vector<std::vector<std::uint64_t>> sums(static_cast<std::size_t>(p));
    run(p, [&](BackendRank& rank) {
      const auto n = static_cast<std::size_t>(p);
      const std::size_t counts[] = {0, 1, n - 1, n + 1, 2 * n + 3, 1000, thinned ? 2 * n : 9001};
      std::size_t turn = 0;
      for (const Kind kind : {Kind::allreduce, Kind::reduce})
        for (const std::string_view algorithm : provider->algorithms(kind))
          for (int o = 0; o < op_count; ++o)
            for (int d = 0; d < dtype_count; ++d) {
              const auto op = static_cast<Op>(o);
              if (!supports(op, static_cast<DType>(d))) continue;
              const std::uint64_t sum =
                  play(rank, {kind, static_cast<DType>(d), {op, 0.5}, counts[turn % 7], algorithm, turn % 2 == 0});
              if (kind == Kind::allreduce) sums[static_cast<std::size_t>(rank.rank())].push_back(sum);
              ++turn;
            }
    });
    for (const auto& other : sums) EXPECT_EQ(other, sums.front()) << "the ranks got different bits, of " << p;
  }
}

TEST_F(Gloo, CountsOfHalvingDoubling) {
  for (const int p : {2, 3, 5, 6, 7, 8, 11}) {
    if (thinned && p > 7) continue;
    run(p, [&](BackendRank& rank) {
      for (std::size_t count = 0; count < (thinned ? 12u : 70u); ++count)
        play(rank, {Kind::allreduce, DType::i32, sum, count, "halving_doubling", count % 2 == 0});
    });
  }
}

TEST_F(Gloo, LargeBuffersTakeSeveralSegments) {
  const std::size_t count = thinned ? 1 << 20 : 5'000'011;
  for (const int p : {2, 3})
    run(p, [&](BackendRank& rank) {
      for (const std::string_view algorithm : provider->algorithms(Kind::allreduce))
        play(rank, {Kind::allreduce, DType::f32, avg, count, algorithm, false});
      play(rank, {Kind::reduce, DType::i16, sum, count, "ring", false});
    });
}

/// What moves, and is not folded: blocks(a, b) is what rank a has for rank b.
class Moves : Blocks {
 public:
  Moves(BackendRank& rank, DType dtype, std::size_t count, bool variable)
      : Blocks(dtype, count, variable), rank_(rank), me_(rank.rank()), root_(rank.size() / 2) {}

  void broadcast() {
    Data out = me_ == root_ ? block(root_, 0, count_) : Data(count_ * width());
    play(Kind::broadcast, {}, out);
    EXPECT_EQ(out, block(root_, 0, count_));
  }
  void allgather(bool in_place) { gathered(Kind::allgather, in_place, true); }
  void gather(bool in_place) { gathered(Kind::gather, in_place, me_ == root_); }
  void scatter(bool in_place) {
    Data in, out(counted(me_) * width());
    for (int b = 0; b < rank_.size() && me_ == root_; ++b) append(in, block(root_, b, counted(b)));
    for (int b = 0; b < rank_.size(); ++b) call_.in_counts.push_back(counted(b));
    if (me_ == root_ && in_place) {
      std::size_t before = 0;
      for (int b = 0; b < me_; ++b) before += counted(b) * width();
      play(Kind::scatter, in, {in.data() + before, out.size()});
      out.assign(in.begin() + static_cast<std::ptrdiff_t>(before),
                 in.begin() + static_cast<std::ptrdiff_t>(before + out.size()));
    } else {
      play(Kind::scatter, in, out);
    }
    EXPECT_EQ(out, block(root_, me_, counted(me_)));
  }
  void alltoall(bool in_place) {
    Data in, expected;
    for (int b = 0; b < rank_.size(); ++b) {
      append(in, block(me_, b, pair(me_, b)));
      append(expected, block(b, me_, pair(b, me_)));
      call_.in_counts.push_back(pair(me_, b));
      call_.out_counts.push_back(pair(b, me_));
    }
    Data out = in_place && !variable_ ? in : Data(expected.size());
    play(Kind::alltoall, in_place && !variable_ ? Bytes(out) : Bytes(in), out);
    EXPECT_EQ(out, expected);
  }
  void barrier() { play(Kind::barrier, {}, {}); }

 private:
  void gathered(Kind kind, bool in_place, bool gets) {
    Data expected;
    std::size_t before = 0;
    for (int a = 0; a < rank_.size(); ++a) {
      if (a == me_) before = expected.size();
      append(expected, block(a, 0, counted(a)));
      call_.out_counts.push_back(counted(a));
    }
    Data in = block(me_, 0, counted(me_)), out(gets ? expected.size() : 0);
    if (in_place && gets) std::ranges::copy(in, out.begin() + static_cast<std::ptrdiff_t>(before));
    play(kind, in_place && gets ? Bytes(out).subspan(before, in.size()) : Bytes(in), out);
    EXPECT_TRUE(!gets || out == expected) << name(kind) << " at rank " << me_;
  }
  void play(Kind kind, Bytes in, Bytes out) {
    call_.kind = kind;
    call_.in = ConstBuffer(in.data(), in.size() / width(), dtype_);
    call_.out = Buffer(out.data(), out.size() / width(), dtype_);
    call_.root = kind == Kind::allgather || kind == Kind::alltoall || kind == Kind::barrier ? 0 : root_;
    call_.variable = variable_ && kind != Kind::broadcast && kind != Kind::barrier;
    if (!call_.variable) call_.in_counts = call_.out_counts = {};
    rank_.play(call_);
    call_ = {};
  }

  BackendRank& rank_;
  const int me_, root_;
  Collective call_;
};

TEST_F(Gloo, MovesEveryBlockToItsPlace) {
  for (const int p : {1, 2, 3, 4, 5, 8})
    run(p, [&](BackendRank& rank) {
      for (const DType dtype : {DType::i8, DType::bf16, DType::i32, DType::f64})
        for (const std::size_t count : {0u, 1u, 7u, 3001u})
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

}  // namespace
}  // namespace tutti::testing
