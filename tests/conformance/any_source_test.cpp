// Tests receives from any rank, probes, cancelled receives, and calls without a deadline.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cstring>
#include <thread>
#include <tuple>

#include "tests/support/caught.hpp"
#include "tests/support/ranks.hpp"
#include "tests/support/refusal.hpp"
#include "tests/support/require.hpp"
#include "tests/support/thinned.hpp"
#include "tests/support/worlds.hpp"
#include "tutti.hpp"

namespace tutti::testing {
namespace {

using Block = std::vector<std::byte>;

class AnySource : public ::testing::TestWithParam<std::tuple<const char*, int>> {
 protected:
  int size() const { return std::get<1>(GetParam()); }
  void run(const std::function<void(Communicator&)>& body) const {
    const std::string transport = std::get<0>(GetParam());
    tutti::testing::run_ranks(
        size(),
        [&](int rank) {
          Settings settings = test_settings(transport == "routed" ? "shm,tcp" : transport);
          if (transport == "routed") settings.host_id = rank % 2 == 0 ? "even" : "odd";
          return settings;
        },
        body);
  }
};

Buffer bytes_of(Block& block) { return {block.data(), block.size(), DType::u8}; }
Block message(std::size_t bytes, int from, int number) {
  return pattern(bytes, static_cast<std::size_t>(from * 100 + number));
}

std::optional<Arrived> wait_for_message(Communicator& world, int from, int tag) {
  std::optional<Arrived> found;
  while (!(found = world.probe(from, tag))) std::this_thread::yield();
  return found;
}

// Receives from any rank are posted before or after the messages are sent. Each rank's messages arrive in their order.
TEST_P(AnySource, EveryMessageIsTakenOnceAndTellsWhoseItIs) {
  run([&](Communicator& world) {
    const int p = world.size(), each = 3;
    for (const std::size_t bytes : {0, 1, 1000, 16384, 70000, thinned ? 300'000 : 4 << 20})
      for (const bool early : {true, false}) {
        std::vector<Block> out;
        std::vector<Work> sent;
        for (int k = 0; k < each; ++k) out.push_back(message(bytes, world.rank(), k));
        const auto send_all = [&] {
          for (Block& block : out) sent.push_back(world.send(ConstBuffer(bytes_of(block)), 0, 7));
        };
        if (world.rank() != 0 || !early) send_all();
        if (world.rank() == 0) {
          std::vector<Block> in(static_cast<std::size_t>(p * each), Block(bytes));
          std::vector<Value<int>> received;
          for (Block& block : in) received.push_back(world.recv_any(bytes_of(block), 7));
          if (early) send_all();
          std::vector<int> seen(static_cast<std::size_t>(p));
          for (std::size_t i = 0; i < in.size(); ++i) {
            const int from = received[i].wait();
            require(from >= 0 && from < p, "a rank");
            const int number = seen[static_cast<std::size_t>(from)]++;
            require(same(in[i], message(bytes, from, number)), "bytes of rank " + std::to_string(from));
          }
          require(std::ranges::count(seen, each) == p, "all messages of all ranks");
        }
        for (const Work& work : sent) work.wait();
        world.barrier().wait();
      }
  });
}

TEST_P(AnySource, ReceivesThatNameTheRankGoFirst) {
  run([](Communicator& world) {
    const int sender = world.size() - 1;
    int any = -1, named = -1;
    if (world.rank() == 0) {
      const Value<int> from_any = world.recv_any(Buffer(&any, 1, DType::i32), 3);
      const Work from_sender = world.recv(Buffer(&named, 1, DType::i32), sender, 3);
      if (sender > 0) world.barrier().wait();
      const std::array<int, 2> own{11, 22};
      std::vector<Work> sent;
      if (sender == 0)
        for (const int& one : own) sent.push_back(world.send(ConstBuffer(&one, 1, DType::i32), 0, 3));
      from_sender.wait();
      require(named == 11, "the first message is for who names the rank");
      require(from_any.wait() == sender && any == 22, "the second is for anyone");
      for (const Work& work : sent) work.wait();
    } else {
      world.barrier().wait();
      const std::array<int, 2> out{11, 22};
      if (world.rank() == sender)
        for (const int& one : out) world.send(ConstBuffer(&one, 1, DType::i32), 0, 3).wait();
    }
    world.barrier().wait();
  });
}

// The receiver probes each message and then allocates a buffer of its size, as a server does.
TEST_P(AnySource, AMessageIsLookedAtBeforeItsBufferIsThere) {
  run([](Communicator& world) {
    const int p = world.size(), me = world.rank();
    std::vector<float> mine(static_cast<std::size_t>(me * 9000 + 1), 0.5f + static_cast<float>(me));
    const Work sent = world.send(mine, 0, 5);
    if (me == 0) {
      std::vector<int> seen(static_cast<std::size_t>(p));
      for (int i = 0; i < p; ++i) {
        const Arrived found = *wait_for_message(world, any_rank, 5);
        require(found.tag == 5 && found.dtype == DType::f32 && found.bytes == 4 * found.count, "its type");
        require(found.count == static_cast<std::size_t>(found.from * 9000 + 1), "its count");
        const auto again = world.probe(found.from, 5);
        require(again && again->from == found.from && again->count == found.count, "it is still there");
        require(!world.probe(any_rank, 6) && !world.probe(found.from, 6), "nothing has another tag");
        std::vector<float> data(found.count);
        world.recv(data, found.from, 5).wait();
        require(std::ranges::count(data, 0.5f + static_cast<float>(found.from)) == std::ssize(data), "its data");
        ++seen[static_cast<std::size_t>(found.from)];
      }
      require(std::ranges::count(seen, 1) == p, "one of each rank");
      require(!world.probe(any_rank, 5), "nothing is left");
    }
    sent.wait();
    world.barrier().wait();
  });
}

TEST_P(AnySource, AReceiveThatMetNothingIsTakenBack) {
  run([](Communicator& world) {
    const int me = world.rank(), next = (me + 1) % world.size(), prev = (me + world.size() - 1) % world.size();
    for (const std::size_t bytes : {std::size_t{0}, std::size_t{8}, std::size_t{200'000}}) {
      Block never(bytes), neither(bytes), first(bytes), second(bytes);
      const Work named = world.recv(bytes_of(never), prev, 1);
      const Value<int> any = world.recv_any(bytes_of(neither), 2);
      const Work kept = world.recv(bytes_of(first), prev, 3), dropped = world.recv(bytes_of(second), prev, 3);
      require(named.cancel() && any.cancel() && dropped.cancel(), "they are taken back");
      for (const Work* one : {&named, static_cast<const Work*>(&any), &dropped}) {
        const Error error = caught([&] { one->wait(); });
        require(error.code() == Code::aborted && !one->cancel(),
                "a call that was taken back: " + std::string(error.what()));
      }
      world.barrier().wait();
      const Block out = message(bytes, me, 1);
      std::vector<Work> sent;
      for (const int tag : {1, 2, 3}) sent.push_back(world.send(ConstBuffer(out.data(), bytes, DType::u8), next, tag));
      kept.wait();
      require(!kept.cancel(), "what has ended cannot be taken back");
      Block one(bytes), two(bytes);
      const Value<int> late = world.recv_any(bytes_of(one), 2);
      world.recv(bytes_of(two), prev, 1).wait();
      require(late.wait() == prev, "whose the message was");
      require(same(one, message(bytes, prev, 1)) && same(two, one) && same(first, one), "the messages went to others");
      require(same(never, Block(bytes)) && same(neither, Block(bytes)) && same(second, Block(bytes)),
              "memory that was given back is left alone");
      for (const Work& work : sent) require(!work.cancel(), "a send cannot be taken back"), work.wait();
      const Work barrier = world.barrier();
      require(!barrier.cancel(), "a collective cannot be taken back");
      barrier.wait();
    }
  });
}

// Another thread cancels receives while messages come: each message is received once, in its order, by one receive.
TEST_P(AnySource, TakingBackRacesWithMessages) {
  if (size() == 1) GTEST_SKIP() << "two ranks at least";
  run([](Communicator& world) {
    const int senders = world.size() - 1;
    constexpr int each = 40;
    if (world.rank() > 0) {
      for (int k = 0; k < each; ++k) {
        const int out = world.rank() * 1000 + k;
        world.send(ConstBuffer(&out, 1, DType::i32), 0, 4).wait();
      }
    } else {
      std::vector<int> seen(static_cast<std::size_t>(world.size()));
      int taken_back = 0;
      for (int received = 0; received < senders * each;) {
        int in = -1;
        const bool by_name = (received + taken_back) % 3 == 0;
        const int name = 1 + received % senders;
        if (by_name && seen[static_cast<std::size_t>(name)] == each) {
          ++taken_back;
          continue;
        }
        const Work work = by_name ? world.recv(Buffer(&in, 1, DType::i32), name, 4)
                                  : static_cast<Work>(world.recv_any(Buffer(&in, 1, DType::i32), 4));
        std::atomic<bool> back{false};
        std::thread canceller([&] { back = work.cancel(); });
        try {
          work.wait();
        } catch (const Error& error) {
          require(error.code() == Code::aborted, error.what());
        }
        canceller.join();
        require(back == (in == -1), "either taken back or received");
        if (back) {
          ++taken_back;
          continue;
        }
        require(in % 1000 == seen[static_cast<std::size_t>(in / 1000)]++, "in their order");
        ++received;
      }
    }
    world.barrier().wait();
  });
}

TEST_P(AnySource, AFailureEndsIt) {
  run([](Communicator& world) {
    Communicator others = world.dup();
    int in = 0;
    const Value<int> never = world.recv_any(Buffer(&in, 1, DType::i32), 1, {.timeout = no_deadline});
    const Work neither = world.recv(Buffer(&in, 1, DType::i32), 0, 2, {.timeout = no_deadline});
    others.barrier().wait();
    if (world.rank() == world.size() - 1) world.abort("for the test");
    for (const Work& one : {static_cast<Work>(never), neither}) {
      const Error error = caught([&] { one.wait(); });
      require(error.code() == Code::aborted && error.culprit() == world.size() - 1, error.what());
    }
    require(caught([&] { static_cast<void>(world.probe(any_rank)); }).code() == Code::aborted, "probe tells of it");
    require(!never.cancel(), "it is over");
  });
}

// A call of `other` exceeds its deadline and fails `other`. Calls of `world` without a deadline are not affected.
TEST(AnySourceArguments, WithoutADeadlineNothingExpires) {
  Settings settings = test_settings("inproc");
  settings.timeout = 1.5;
  tutti::testing::run_ranks(2, settings, [](Communicator& world) {
    Communicator other = world.dup();
    int in = 0, unused = 0;
    const bool receives = world.rank() == 0;
    std::vector<Work> waiting;
    if (receives) {
      waiting.push_back(world.recv_any(Buffer(&in, 1, DType::i32), 1, {.timeout = no_deadline}));
      waiting.push_back(world.recv(Buffer(&unused, 1, DType::i32), 1, 2, {.timeout = no_deadline}));
      waiting.push_back(world.barrier({.timeout = no_deadline}));
      int never = 0;
      const Error error = caught([&] { other.recv(Buffer(&never, 1, DType::i32), 1, 3).wait(); });
      require(error.code() == Code::timeout, error.what());
      for (const Work& one : waiting) require(!one.done(), "it has expired");
      world.send(ConstBuffer(&never, 1, DType::i32), 1, 4).wait();  // after the calls have been checked
    } else {                                                        // rank 1 learns of the failure of `other`
      caught([&] { other.barrier({.timeout = no_deadline}).wait(); });
      world.recv(Buffer(&unused, 1, DType::i32), 0, 4, {.timeout = no_deadline}).wait();
      for (const int tag : {1, 2}) world.send(ConstBuffer(&tag, 1, DType::i32), 0, tag).wait();
      world.barrier().wait();
    }
    for (const Work& one : waiting) one.wait();
    require(!receives || (in == 1 && unused == 2), "the messages");
  });
}

TEST(AnySourceArguments, WhatMakesNoSenseIsRefused) {
  tutti::testing::run_ranks(2, test_settings("inproc"), [](Communicator& world) {
    int in = 0;
    const Buffer one(&in, 1, DType::i32);
    EXPECT_EQ(
        refusal([&] { static_cast<void>(world.recv(one, any_rank)); }),
        "recv: peer -1 is not a rank of this communicator, whose ranks are 0 to 1; recv_any receives from whoever "
        "sends");
    EXPECT_EQ(refusal([&] { static_cast<void>(world.recv_any(one, -1)); }),
              "recv_any: the tag -1 is negative; tags are 0 or more");
    EXPECT_EQ(refusal([&] { static_cast<void>(world.probe(-2)); }),
              "probe: peer -2 is not a rank of this communicator, whose ranks are 0 to 1");
    EXPECT_EQ(refusal([&] { static_cast<void>(world.probe(any_rank, -3)); }),
              "probe: the tag -3 is negative; tags are 0 or more");
    const Buffer device(&in, 1, DType::i32, {Device::Kind::cuda, 0});
    EXPECT_EQ(refusal([&] { static_cast<void>(world.recv_any(device)); }, Code::unsupported),
              "recv_any: the buffer is on a device; receive on the host, or name the rank");
    Collective both;
    both.kind = Kind::send;
    both.out = one;
    both.from = 1;
    both.from_any = true;
    EXPECT_EQ(refusal([&] { static_cast<void>(world.launch(both)); }),
              "send: it is to receive from rank 1 and from anyone");
    world.barrier().wait();
  });
}

TEST(RegisteredMemory, IsTheCallersOwn) {
  for (const char* transport : {"inproc", "shm", "tcp", "shm,tcp"})
    tutti::testing::run_ranks(2, test_settings(transport), [](Communicator& world) {
      std::vector<float> data(100'000, 1.0f);
      const auto registered = world.register_memory(data.data(), data.size() * sizeof(float));
      require(registered.get() == data.data() && !world.register_memory(nullptr, 8), "what is registered");
      world.allreduce(std::span(data).subspan(7)).wait();
      require(data[6] == 1.0f && data[7] == 2.0f && data.back() == 2.0f, "a part of it");
    });
}

// With verify=off, a message does not carry its element type, so a probe returns its size in bytes.
TEST(AnySourceArguments, WhereMessagesAreNotCheckedBytesAreTold) {
  Settings settings = test_settings("inproc");
  settings.verify = "off";
  tutti::testing::run_ranks(2, settings, [](Communicator& world) {
    const std::array<double, 3> out{1, 2, 3};
    std::array<double, 3> in{};
    const Work sent = world.send(out, 1 - world.rank());
    const auto found = wait_for_message(world, any_rank, 0);
    EXPECT_EQ(found->dtype, DType::u8);
    EXPECT_EQ(found->count, 24u);
    EXPECT_EQ(world.recv_any(in).wait(), 1 - world.rank());
    EXPECT_EQ(in, out);
    sent.wait();
  });
}

INSTANTIATE_TEST_SUITE_P(
    Everywhere, AnySource,
    ::testing::Combine(::testing::Values("inproc", "shm", "tcp", "routed"),
                       ::testing::ValuesIn(thinned ? std::vector{1, 3, 4} : std::vector{1, 2, 3, 5, 8})),
    [](const auto& one) { return std::string(std::get<0>(one.param)) + "_" + std::to_string(std::get<1>(one.param)); });

}  // namespace
}  // namespace tutti::testing
