// Compares calls on memory of a device or the host with a reference. The calls are played by a backend alone, or by a
// communicator.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "tests/support/fake_gpus.hpp"
#include "tests/support/reference.hpp"
#include "tutti/collective.hpp"
#include "tutti/communicator.hpp"

namespace tutti::testing {

/// A rank that plays calls, with the place of its buffers.
class DeviceRank {
 public:
  virtual ~DeviceRank() = default;
  virtual int rank() const = 0;
  virtual int size() const = 0;
  virtual int device() const = 0;  ///< the device's number, or on_host
  /// Plays the call until it has succeeded. Returns false if it is refused, which must happen on all ranks; then
  /// nothing was done.
  virtual bool play(const Collective& call) = 0;
};

/// A rank of a communicator whose calls are made by the backend `target`.
class WorldRank final : public DeviceRank {
 public:
  WorldRank(Communicator& world, int device, std::string target)
      : world_(world), device_(device), target_(std::move(target)) {}
  int rank() const override { return world_.rank(); }
  int size() const override { return world_.size(); }
  int device() const override { return device_; }
  bool play(const Collective& call) override {
    begin(call).wait();
    return true;
  }

  Work begin(const Collective& c) {
    const CallOptions by{.algorithm = target_};
    switch (c.kind) {
      case Kind::allreduce: return world_.allreduce(c.in, c.out, c.op, by);
      case Kind::reduce: return world_.reduce(c.in, c.out, c.op, c.root, by);
      case Kind::broadcast: return world_.broadcast(c.out, c.root, by);
      case Kind::allgather:
        return c.variable ? world_.allgatherv(c.in, c.out, c.out_counts, by) : world_.allgather(c.in, c.out, by);
      case Kind::reduce_scatter:
        return c.variable ? world_.reduce_scatterv(c.in, c.out, c.in_counts, c.op, by)
                          : world_.reduce_scatter(c.in, c.out, c.op, by);
      case Kind::gather:
        return c.variable ? world_.gatherv(c.in, c.out, c.out_counts, c.root, by)
                          : world_.gather(c.in, c.out, c.root, by);
      case Kind::scatter:
        return c.variable ? world_.scatterv(c.in, c.out, c.in_counts, c.root, by)
                          : world_.scatter(c.in, c.out, c.root, by);
      case Kind::alltoall:
        return c.variable ? world_.alltoallv(c.in, c.in_counts, c.out, c.out_counts, by)
                          : world_.alltoall(c.in, c.out, by);
      default: return world_.barrier(by);
    }
  }

 private:
  Communicator& world_;
  const int device_;
  const std::string target_;
};

struct Fold1 {
  Kind kind;
  DType dtype;
  Reduction op;
  std::size_t count;
  bool in_place, variable;
};

/// Plays one reduction, and compares the result with the reference.
class Folded {
 public:
  Folded(DeviceRank& rank, const Fold1& one)
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
    OnDevice in(rank_.device(), inputs_[me_]), out(rank_.device(), gets ? count * width : 0);
    const bool in_place = one_.in_place && gets && count > 0;
    Collective call;
    call.kind = one_.kind;
    call.in = in.buffer(one_.dtype);
    call.out = in_place ? in.part(first * width, count * width, one_.dtype) : out.buffer(one_.dtype);
    call.op = one_.op;
    call.root = one_.kind == Kind::reduce ? root : 0;
    call.variable = one_.variable;
    if (one_.variable) call.in_counts = counts_;
    if (!rank_.play(call)) return 0;
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

  DeviceRank& rank_;
  const Fold1 one_;
  const std::size_t n_, me_;
  std::vector<std::size_t> counts_;
  std::size_t total_ = 0;
  std::vector<Data> inputs_;
};

/// Calls that move data without reductions. block(a, b) is rank a's data for rank b.
class Moves : Blocks {
 public:
  Moves(DeviceRank& rank, DType dtype, std::size_t count, bool variable)
      : Blocks(dtype, count, variable), rank_(rank), me_(rank.rank()), root_(rank.size() / 2) {}

  void broadcast() {
    OnDevice out(rank_.device(), me_ == root_ ? block(root_, 0, count_) : Data(count_ * width()));
    if (!play(Kind::broadcast, out.buffer(dtype_), out.buffer(dtype_))) return;
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
    OnDevice in(rank_.device(), me_ == root_ ? all : Data{}), out(rank_.device(), mine.size());
    in_place = in_place && me_ == root_;
    const Buffer result = in_place ? in.part(before, mine.size(), dtype_) : out.buffer(dtype_);
    if (!play(Kind::scatter, in.buffer(dtype_), result)) return;
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
    OnDevice from(rank_.device(), in), into(rank_.device(), expected.size());
    if (!play(Kind::alltoall, from.buffer(dtype_), in_place ? from.buffer(dtype_) : into.buffer(dtype_))) return;
    EXPECT_EQ(in_place ? from.read() : into.read(), expected);
  }
  void barrier() { play(Kind::barrier, {}, {}); }
  void everything_but_barrier() {
    broadcast();
    for (const bool in_place : {false, true}) {
      allgather(in_place);
      gather(in_place);
      scatter(in_place);
      alltoall(in_place);
    }
  }

 private:
  void gathered(Kind kind, bool in_place, bool gets) {
    Data expected;
    std::size_t before = 0;
    for (int a = 0; a < rank_.size(); ++a) {
      if (a == me_) before = expected.size();
      append(expected, block(a, 0, counted(a)));
      call_.out_counts.push_back(counted(a));
    }
    const Data mine = block(me_, 0, counted(me_));
    OnDevice in(rank_.device(), mine), out(rank_.device(), gets ? expected.size() : 0);
    in_place = in_place && gets;
    if (in_place) {
      Data start(expected.size());
      std::ranges::copy(mine, start.begin() + static_cast<std::ptrdiff_t>(before));
      out.write(start);
    }
    if (!play(kind, in_place ? out.part(before, mine.size(), dtype_) : in.buffer(dtype_), out.buffer(dtype_))) return;
    EXPECT_TRUE(!gets || out.read() == expected) << name(kind) << " at rank " << me_;
  }
  bool play(Kind kind, ConstBuffer in, Buffer out) {
    call_.kind = kind;
    call_.in = in;
    call_.out = out;
    call_.root = kind == Kind::allgather || kind == Kind::alltoall || kind == Kind::barrier ? 0 : root_;
    call_.variable = variable_ && kind != Kind::broadcast && kind != Kind::barrier;
    if (!call_.variable) call_.in_counts = call_.out_counts = {};
    const bool played = rank_.play(call_);
    call_ = {};
    return played;
  }

  DeviceRank& rank_;
  const int me_, root_;
  Collective call_;
};

}  // namespace tutti::testing
