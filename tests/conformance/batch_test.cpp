// Several calls launched as one, and waiting for any of several.
#include <gtest/gtest.h>

#include <array>
#include <atomic>
#include <thread>

#include "collectives/runtime/packing.hpp"
#include "tests/support/caught.hpp"
#include "tests/support/reference.hpp"
#include "tests/support/refusal.hpp"
#include "tests/support/require.hpp"
#include "tests/support/worlds.hpp"
#include "tutti.hpp"
#include "tutti/bootstrap.hpp"
#include "tutti/store.hpp"

namespace tutti::testing {
namespace {

class Batches : public ::testing::TestWithParam<std::tuple<const char*, int>> {
 protected:
  int size() const { return std::get<1>(GetParam()); }
  void run(const std::function<void(Communicator&)>& body) const {
    const std::string transport = std::get<0>(GetParam());
    run_ranks(
        size(),
        [&](int rank) {
          Settings settings = test_settings(transport == "routed" ? "shm,tcp" : transport);
          if (transport == "routed") settings.host_id = rank % 2 == 0 ? "even" : "odd";
          settings.lane_bytes = 16 << 10;
          return settings;
        },
        body);
  }
};

/// The calls of a list, with memory of their own.
class List {
 public:
  explicit List(const Communicator& world) : world_(world) {}

  void add(Kind kind, DType dtype, std::size_t count, Reduction op = sum, int root = 0, bool variable = false) {
    const auto p = static_cast<std::size_t>(world_.size());
    const bool blocks_in = kind == Kind::reduce_scatter || kind == Kind::scatter || kind == Kind::alltoall;
    const bool blocks_out = kind == Kind::allgather || kind == Kind::gather || kind == Kind::alltoall;
    const std::size_t ins = count * (blocks_in ? p : 1), outs = count * (blocks_out ? p : 1);
    auto& in =
        memory_.emplace_back(random_data(dtype, ins, calls_.size() * 10 + static_cast<std::size_t>(world_.rank())));
    auto& out = memory_.emplace_back(kind == Kind::broadcast ? in : Data(outs * size_of(dtype)));
    Collective call;
    call.kind = kind;
    call.op = op;
    call.root = root;
    const bool at_root = world_.rank() == root;
    call.in = ConstBuffer(in.data(), ins, dtype);
    call.out = Buffer(out.data(), outs, dtype);
    if (kind == Kind::scatter && !at_root) call.in = {};
    if ((kind == Kind::reduce || kind == Kind::gather) && !at_root) call.out = {};
    if (kind == Kind::barrier) call.in = {}, call.out = {};
    if (variable) {
      call.variable = true;
      call.out_counts.assign(p, count);
    }
    calls_.push_back(std::move(call));
  }
  const std::vector<Collective>& calls() const { return calls_; }
  const std::deque<Data>& memory() const { return memory_; }

 private:
  const Communicator& world_;
  std::deque<Data> memory_;
  std::vector<Collective> calls_;
};

List list_for(const Communicator& world) {
  List list(world);
  const int last = world.size() - 1;
  for (const std::size_t count : {5, 1, 0, 700}) list.add(Kind::allreduce, DType::f32, count);
  list.add(Kind::allreduce, DType::f32, 9000, avg);
  for (const std::size_t count : {3, 40}) list.add(Kind::allreduce, DType::u16, count, max);
  for (int i = 0; i < 3; ++i) list.add(Kind::allreduce, DType::f64, 7, premul_sum(0.5));
  for (const std::size_t count : {1, 900}) list.add(Kind::broadcast, DType::i64, count, sum, last);
  for (const std::size_t count : {2, 3}) list.add(Kind::broadcast, DType::i64, count, sum, 0);
  list.add(Kind::barrier, DType::u8, 0);
  for (const std::size_t count : {3, 0, 17}) list.add(Kind::allgather, DType::bf16, count);
  list.add(Kind::allgather, DType::bf16, 4, sum, 0, true);
  for (const std::size_t count : {3, 17}) list.add(Kind::reduce_scatter, DType::i32, count, bxor);
  for (const std::size_t count : {3, 17}) list.add(Kind::reduce, DType::f64, count, sum, last);
  for (const std::size_t count : {6, 1}) list.add(Kind::gather, DType::i8, count, sum, last);
  for (const std::size_t count : {6, 1}) list.add(Kind::scatter, DType::u64, count, sum, last);
  for (const std::size_t count : {2, 90}) list.add(Kind::alltoall, DType::f16, count);
  return list;
}

TEST_P(Batches, AListGivesWhatItsCallsGive) {
  run([](Communicator& world) {
    const List alone = list_for(world), together = list_for(world);
    for (const Collective& call : alone.calls()) world.launch(call, {.algorithm = ""}).wait();
    const Work all = world.launch(std::span(together.calls()));
    all.wait();
    require(all.done() && !all.cancel(), "it has ended");
    for (std::size_t i = 0; i < alone.memory().size(); ++i) {
      const Collective& call = alone.calls()[i / 2];
      const bool rounds =
          call.kind == Kind::allreduce || call.kind == Kind::reduce || call.kind == Kind::reduce_scatter;
      const bool exact = !rounds || is_integer(call.in.dtype) || call.op.op == Op::premul_sum;
      if (exact) require(alone.memory()[i] == together.memory()[i], "call " + std::to_string(i / 2));
      // In a longer buffer an element may be at another position, so that it is reduced in another order.
      for (std::size_t at = 0; !exact && at < alone.memory()[i].size() / size_of(call.in.dtype); ++at) {
        const double a = real_at(call.in.dtype, alone.memory()[i].data(), at),
                     b = real_at(call.in.dtype, together.memory()[i].data(), at);
        require(std::abs(a - b) <= 1e-5, "call " + std::to_string(i / 2) + ", element " + std::to_string(at));
      }
    }
  });
}

// Rank 0 does not make the next call, so that call fails on the other ranks. The error must have the number `number`.
void expect_number_of_next_call(Communicator& world, const std::string& number) {
  if (world.rank() == 0) {
    int in = 0;
    for (int i = 1; i < world.size(); ++i) world.recv_any(Buffer(&in, 1, DType::i32), 99).wait();
    return world.abort("for the test");
  }
  const Work next = world.barrier();
  const int out = 0;
  const Work told = world.send(ConstBuffer(&out, 1, DType::i32), 0, 99);  // may fail as well
  EXPECT_NE(std::string(caught([&] { next.wait(); }).what()).find("barrier, call " + number + " on"),
            std::string::npos);
}

TEST_P(Batches, NeighboursTravelAsOneCall) {
  run([](Communicator& world) {
    List list(world);
    for (int i = 0; i < 10; ++i) list.add(Kind::allreduce, DType::f32, 100);    // these become one call
    for (int i = 0; i < 3; ++i) list.add(Kind::allreduce, DType::f64, 1024);    // two become one, the third another
    list.add(Kind::barrier, DType::u8, 0);                                      // one call
    for (int i = 0; i < 2; ++i) list.add(Kind::reduce, DType::f32, 2, sum, 0);  // these become one call
    world.launch(std::span(list.calls())).wait();
    expect_number_of_next_call(world, "6");
  });
}

TEST_P(Batches, SendsAndReceivesMayBeAnyMix) {
  run([](Communicator& world) {
    const int p = world.size(), me = world.rank();
    std::vector<int> in(static_cast<std::size_t>(p), -1), out(static_cast<std::size_t>(p));
    std::vector<Collective> calls;
    int any = -1, total = me;
    const auto message = [&](int& memory, bool sends, int peer, int tag) {
      Collective call;
      call.kind = Kind::send;
      (sends ? call.to : call.from) = peer;
      if (sends) call.in = ConstBuffer(&memory, 1, DType::i32);
      if (!sends) call.out = Buffer(&memory, 1, DType::i32);
      if (!sends) call.from_any = peer < 0;
      call.tag = tag;
      calls.push_back(call);
    };
    for (int peer = 0; peer < p; ++peer) out[static_cast<std::size_t>(peer)] = me * 100 + peer;
    for (int step = 0; step < p; ++step) {  // even ranks post the receive first, odd ranks the send
      const int to = (me + step) % p, from = (me + p - step) % p;
      if (me % 2 == 0) message(in[static_cast<std::size_t>(from)], false, from, 1);
      message(out[static_cast<std::size_t>(to)], true, to, 1);
      if (me % 2 == 1) message(in[static_cast<std::size_t>(from)], false, from, 1);
    }
    if (me == 0) message(any, false, -1, 2);
    if (me == p - 1) message(out[0], true, 0, 2);
    Collective sums;
    sums.kind = Kind::allreduce;
    sums.in = ConstBuffer(&total, 1, DType::i32);
    sums.out = Buffer(&total, 1, DType::i32);
    calls.push_back(sums);
    const auto keep = std::make_shared<int>(1);
    world.launch(std::span(calls), {.keep = keep}).wait();
    for (int from = 0; from < p; ++from) require(in[static_cast<std::size_t>(from)] == from * 100 + me, "a message");
    require(me != 0 || any == (p - 1) * 100, "the message from anyone");
    require(total == p * (p - 1) / 2, "the sum");
  });
}

TEST_P(Batches, EndsOfHandlesAndCallbacks) {
  run([](Communicator& world) {
    require(world.launch(std::span<const Collective>()).done(), "an empty list is done");
    std::atomic<int> told{0};
    for (int round = 0; round < 20; ++round) {
      List list = list_for(world);
      if (round % 2 == 0) {
        static_cast<void>(world.launch(std::span(list.calls())));  // the dropped Work waits
      } else {
        const Work work = world.launch(std::span(list.calls()));
        work.then([&](const Status& status) { told += status.ok() ? 1 : 100; });
        while (!work.done()) std::this_thread::yield();  // no thread waits, so the background thread makes the progress
      }
    }
    world.barrier().wait();
    while (told != 10) std::this_thread::yield();
  });
}

TEST_P(Batches, AWrongCallIsRefusedBeforeAnyHasBegun) {
  run([](Communicator& world) {
    List list(world);
    list.add(Kind::allreduce, DType::f32, 3);
    list.add(Kind::allreduce, DType::i32, 3, avg);
    EXPECT_EQ(refusal([&] { static_cast<void>(world.launch(std::span(list.calls()))); }).substr(0, 35),
              "allreduce: avg is not defined for i");
    EXPECT_NE(refusal([&] {
                static_cast<void>(world.launch(std::span(list_for(world).calls()), {.algorithm = "no such"}));
              }).find("no such"),
              std::string::npos);
    expect_number_of_next_call(world, "1");
  });
}

TEST_P(Batches, AFailureEndsAll) {
  run([](Communicator& world) {
    Communicator group = world.dup();
    int never = 0;
    Collective lost;
    lost.kind = Kind::send;
    lost.from = 0;
    lost.out = Buffer(&never, 1, DType::i32);
    std::vector<Collective> calls(2, lost);
    const Work work = group.launch(std::span(calls));
    world.barrier().wait();
    if (world.rank() == 0) group.abort("for the test");
    const Error error = caught([&] { work.wait(); });
    require(error.code() == Code::aborted, error.what());
    require(std::string(error.what()).starts_with("send/recv("), error.what());
    world.barrier().wait();  // the world still works
  });
}

TEST_P(Batches, WaitAnyNamesTheOneThatIsDone) {
  run([](Communicator& world) {
    const int p = world.size(), me = world.rank(), next = (me + 1) % p, prev = (me + p - 1) % p;
    constexpr int count = 32;
    std::array<int, count> in{};
    std::vector<Work> works;
    for (int i = 0; i < count; ++i)
      works.push_back(world.recv(Buffer(&in[static_cast<std::size_t>(i)], 1, DType::i32), prev, i));
    require(!wait_any(works, Seconds(0)) && !wait_any(works, Seconds(0.01)), "nothing has come");
    require(!wait_any({}, Seconds(0)), "none of none");
    world.barrier().wait();
    for (int i = 0; i < count; ++i) {  // one message at a time, in an order of the sender's choice
      const int tag = i * 11 % count;
      world.send(ConstBuffer(&tag, 1, DType::i32), next, tag).wait();
      const auto found = wait_any(works, Seconds(60));
      require(found == static_cast<std::size_t>(tag), "which one");
      require(in[static_cast<std::size_t>(tag)] == tag, "its data");
      works[static_cast<std::size_t>(tag)] =
          world.recv(Buffer(&in[static_cast<std::size_t>(tag)], 1, DType::i32), prev, 1000 + tag);
      world.barrier().wait();
    }
    require(works[5].cancel() && wait_any(works, Seconds(60)) == 5u, "a failed one counts");
    require(works[3].cancel(), "another one");
    works[3] = Work();
    require(wait_any(works, Seconds(0)) == 3u, "so does an empty one, and the first is told");
    for (const Work& work : works)
      if (!work.done()) require(work.cancel(), "the others");
    world.barrier().wait();  // a rank must not leave earlier: it would count as failed
  });
}

// Several threads wait for any of the same works at the same time, of which one makes the progress.
TEST_P(Batches, SeveralThreadsWaitForAny) {
  run([](Communicator& world) {
    const int me = world.rank();
    for (int round = 0; round < 20; ++round) {
      int in = 0, never = 0, out = round;
      std::vector<Work> works{world.recv(Buffer(&never, 1, DType::i32), me, 1),
                              world.recv(Buffer(&in, 1, DType::i32), me, 2)};
      std::vector<std::thread> threads;
      std::atomic<int> right{0};
      for (int t = 0; t < 3; ++t) threads.emplace_back([&] { right += wait_any(works, Seconds(60)) == 1u ? 1 : 0; });
      const Work sent = world.send(ConstBuffer(&out, 1, DType::i32), me, 2);
      for (std::thread& thread : threads) thread.join();
      require(right == 3 && in == round, "all threads see the one that is done");
      sent.wait();
      require(works[0].cancel(), "the other one");
    }
  });
}

TEST(WaitAny, TakesWorksOfSeveralJobs) {
  Bootstrap other;
  other.size = other.local_size = 2;
  other.store = make_local_store();
  other.launcher = "test";
  run_ranks(2, test_settings("inproc"), [&](Communicator& world) {
    Bootstrap mine = other;
    mine.rank = mine.local_rank = world.rank();
    mine.settings = test_settings("shm");
    mine.settings.job = "the other job";
    mine.settings.secret = "test";
    Communicator second = Communicator::connect(mine);
    int a = 0, b = 0;
    const int peer = 1 - world.rank();
    std::vector<Work> works{world.recv(Buffer(&a, 1, DType::i32), peer), second.recv(Buffer(&b, 1, DType::i32), peer)};
    require(!wait_any(works, Seconds(0.05)), "nothing has come");
    world.barrier().wait();
    second.send(ConstBuffer(&peer, 1, DType::i32), peer).wait();
    require(wait_any(works, Seconds(60)) == 1u, "the other job's");
    world.barrier().wait();
    works.pop_back();
    world.send(ConstBuffer(&peer, 1, DType::i32), peer).wait();
    require(wait_any(works, Seconds(60)) == 0u, "this job's");
    world.barrier().wait();
  });
}

// ---- packing by itself -----------------------------------------------------------------------------

Collective summing(std::size_t count, DType dtype = DType::f32, Reduction op = sum) {
  static std::array<std::byte, 8> somewhere{};
  Collective call;
  call.kind = Kind::allreduce;
  call.op = op;
  call.in = ConstBuffer(somewhere.data(), count, dtype);
  call.out = Buffer(somewhere.data(), count, dtype);
  return call;
}

TEST(Packing, GoesByTheListAlone) {
  const std::vector<Collective> three{summing(4), summing(4), summing(8)};
  EXPECT_EQ(packed_together(three, 4, 64), 3u);
  EXPECT_EQ(packed_together(three, 4, 63), 2u);
  EXPECT_EQ(packed_together(three, 4, 1), 1u) << "a call that is larger goes alone";
  EXPECT_EQ(packed_together(std::vector{summing(1), summing(1, DType::f64)}, 4, 64), 1u);
  EXPECT_EQ(packed_together(std::vector{summing(1), summing(1, DType::f32, max)}, 4, 64), 1u);
  EXPECT_EQ(
      packed_together(std::vector{summing(1, DType::f32, premul_sum(2)), summing(1, DType::f32, premul_sum(2))}, 4, 64),
      1u);
  std::vector<Collective> gathers(2, summing(4));
  for (Collective& one : gathers) one.kind = Kind::allgather;
  EXPECT_EQ(packed_together(gathers, 4, 128), 2u);
  EXPECT_EQ(packed_together(gathers, 4, 127), 1u) << "all blocks count";
  gathers[1].root = 1;
  EXPECT_EQ(packed_together(gathers, 4, 128), 1u);
  std::vector<Collective> others(2, summing(0));
  for (Collective& one : others) one.kind = Kind::barrier;
  EXPECT_EQ(packed_together(others, 4, 128), 1u);
  for (Collective& one : others) one.kind = Kind::send;
  EXPECT_EQ(packed_together(others, 4, 128), 1u);
  std::vector<Collective> on_device(2, summing(1));
  for (Collective& one : on_device) one.in.device = one.out.device = {Device::Kind::cuda, 0};
  EXPECT_EQ(packed_together(on_device, 4, 128), 1u);
}

// The operator of a call that folds nothing has no meaning.
TEST_P(Batches, ACallThatFoldsNothingScalesNothing) {
  run([](Communicator& world) {
    const double mine = world.rank() + 1;
    std::vector<double> all(static_cast<std::size_t>(world.size()));
    Collective call;
    call.kind = Kind::allgather;
    call.op = premul_sum(3);
    call.in = ConstBuffer(&mine, 1, DType::f64);
    call.out = Buffer(all);
    world.launch(call).wait();
    for (std::size_t i = 0; i < all.size(); ++i) require(all[i] == static_cast<double>(i) + 1, "scaled");
  });
}

INSTANTIATE_TEST_SUITE_P(Everywhere, Batches,
                         ::testing::Combine(::testing::Values("inproc", "shm", "tcp", "routed"),
                                            ::testing::Values(1, 2, 5)),
                         [](const auto& one) {
                           return std::string(std::get<0>(one.param)) + "_" + std::to_string(std::get<1>(one.param));
                         });

}  // namespace
}  // namespace tutti::testing
