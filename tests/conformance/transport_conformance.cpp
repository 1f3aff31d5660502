// TransportConformance: tests what tutti/provider/transport.hpp promises, on every provider.
#include <gmock/gmock.h>

#include <random>

#include "tests/support/every_way.hpp"
#include "tutti/collective.hpp"

namespace tutti {
namespace {

using testing::Outcome;
using testing::pattern;
using testing::Rank;
using testing::same;
using Block = std::vector<std::byte>;

constexpr std::size_t byte_counts[] = {0, 1, 7, 4096, 16384, 16385, 1 << 20};

Tag tag(std::size_t sequence, std::uint64_t group = 1, std::uint32_t lane = 0) {
  return {group, static_cast<std::uint32_t>(sequence), lane};
}
std::size_t index(int rank) { return static_cast<std::size_t>(rank); }

class TransportConformance : public testing::EveryWay {};

TEST_P(TransportConformance, carries_every_size_between_every_pair) {
  run_all([](Rank& me) {
    for (const std::size_t bytes : byte_counts) {
      std::vector<Block> out, in(index(me.size()), Block(bytes));
      for (int peer = 0; peer < me.size(); ++peer) out.push_back(pattern(bytes, index(me.rank() * 100 + peer)));
      for (int peer = 0; peer < me.size(); ++peer) {
        me.recv(peer, tag(bytes), in[index(peer)]);
        me.send(peer, tag(bytes), out[index(peer)]);
      }
      me.finish_all(std::to_string(bytes) + " bytes to and from everyone");
      for (int peer = 0; peer < me.size(); ++peer)
        EXPECT_TRUE(same(in[index(peer)], pattern(bytes, index(peer * 100 + me.rank()))))
            << bytes << " bytes from " << peer;
    }
    me.meet("the end");
  });
}

TEST_P(TransportConformance, equal_tags_keep_their_order) {
  run_all([](Rank& me) {
    const std::size_t lengths[] = {8, 20'000, 16, 16'384, 100'000, 0, 8};
    std::vector<Block> out, in;
    for (std::size_t i = 0; i < 70; ++i) {
      const std::size_t bytes = lengths[i % std::size(lengths)];
      out.push_back(pattern(bytes, i));
      in.emplace_back(bytes);
    }
    for (const Block& block : out) me.send(me.next(), tag(3), block);
    for (Block& block : in) me.recv(me.prev(), tag(3), block);
    me.finish_all("70 messages of one tag");
    for (std::size_t i = 0; i < in.size(); ++i) EXPECT_TRUE(same(in[i], out[i])) << i;
    me.meet("the end");
  });
}

TEST_P(TransportConformance, a_large_message_that_nobody_wants_yet_holds_up_nothing) {
  run_all([](Rank& me) {
    const Block large = pattern(2 << 20, 1), small = pattern(100'000, 2);
    Block got_large(large.size()), got_small(small.size());
    me.send(me.next(), tag(2), large);
    me.send(me.next(), tag(1), small);
    me.finish(me.recv(me.prev(), tag(1), got_small), "tag 1, sent after 2 MiB under tag 2");
    EXPECT_TRUE(same(got_small, small));
    me.recv(me.prev(), tag(2), got_large);
    me.finish_all("2 MiB under tag 2");
    EXPECT_TRUE(same(got_large, large));
    me.meet("the end");
  });
}

TEST_P(TransportConformance, a_thousand_unmatched_sends_wait) {
  run_all([](Rank& me) {
    std::vector<Block> out, in(1000, Block(1000));
    for (std::size_t i = 0; i < 1000; ++i) out.push_back(pattern(1000, i));
    for (std::size_t i = 0; i < 1000; ++i) me.send(me.next(), tag(i), out[i]);
    me.meet("1000 sends");
    for (std::size_t i = 1000; i-- > 0;) me.recv(me.prev(), tag(i), in[i]);
    me.finish_all("1000 messages, taken in reverse");
    for (std::size_t i = 0; i < in.size(); ++i) EXPECT_TRUE(same(in[i], out[i])) << i;
    me.meet("the end");
  });
}

TEST_P(TransportConformance, small_sends_end_without_a_recv) {
  run(3, [](Rank& me) {
    const Block out = pattern(64, 1);
    Block in(64);
    me.finish(me.send(me.next(), tag(1), out), "a small send that nobody has asked for");
    me.finish(me.send(me.rank(), tag(1), out), "a small send to oneself");
    me.recv(me.prev(), tag(1), in);
    me.recv(me.rank(), tag(1), in);
    me.finish_all("the recvs");
    me.meet("the end");
  });
}

TEST_P(TransportConformance, folds_what_it_receives) {
  run_all([](Rank& me) {
    for (const std::size_t count : {std::size_t{0}, std::size_t{1}, std::size_t{1000}, std::size_t{200'000}})
      for (const bool in_place : {true, false}) {
        std::vector<float> mine(count), with(count), into(count);
        for (std::size_t i = 0; i < count; ++i) {
          mine[i] = static_cast<float>(i % 1000) + static_cast<float>(me.rank());
          with[i] = 0.5f;
        }
        const auto bytes = [](std::vector<float>& v) { return std::as_writable_bytes(std::span(v)); };
        std::vector<float>& target = in_place ? with : into;
        me.send(me.next(), tag(count, in_place ? 1 : 2), bytes(mine));
        me.recv_reduce(me.prev(), tag(count, in_place ? 1 : 2), bytes(target), bytes(with).data(),
                       {DType::f32, Op::sum, 1.0});
        me.finish_all("a fold of " + std::to_string(count) + " elements");
        for (std::size_t i = 0; i < count; ++i)
          ASSERT_EQ(target[i], static_cast<float>(i % 1000) + static_cast<float>(me.prev()) + 0.5f);
      }
    me.meet("the end");
  });
}

TEST_P(TransportConformance, random_traffic_in_many_lanes) {
  run(4, [](Rank& me) {
    constexpr std::size_t per_pair = 60;
    const auto plan = [](int from, int to) {  // messages from one rank to another, in order, the same on both
      std::mt19937 random(static_cast<unsigned>(from * 10 + to));
      std::vector<std::pair<Tag, std::size_t>> messages;
      for (std::size_t i = 0; i < per_pair; ++i) {
        const std::size_t bytes = random() % 3 ? random() % 5000 : random() % 60'000;
        messages.emplace_back(tag(random() % 3, 1, random() % 4), bytes);
      }
      return messages;
    };
    std::vector<Block> out, in;
    out.reserve(per_pair * index(me.size()));
    in.reserve(out.capacity());
    for (std::size_t i = 0; i < per_pair; ++i)
      for (int peer = 0; peer < me.size(); ++peer) {
        const auto [send_tag, send_bytes] = plan(me.rank(), peer)[i];
        me.send(peer, send_tag, out.emplace_back(pattern(send_bytes, i)));
        const auto [recv_tag, recv_bytes] = plan(peer, me.rank())[i];
        me.recv(peer, recv_tag, in.emplace_back(recv_bytes));
        me.transport->progress();
      }
    me.finish_all("random traffic");
    for (std::size_t i = 0; i < in.size(); ++i) EXPECT_TRUE(same(in[i], pattern(in[i].size(), i / index(me.size()))));
    me.meet("the end");
  });
}

TEST_P(TransportConformance, control_messages_need_no_recv) {
  run_all([](Rank& me) {
    for (int peer = 0; peer < me.size(); ++peer)
      for (const std::size_t length : {std::size_t{3}, Transport::max_control}) {
        const std::string text(length, static_cast<char>('a' + me.rank()));
        me.transport->control(peer, std::as_bytes(std::span(text)));
      }
    me.until([&] { return me.listener.controls().size() == index(2 * me.size()); },
             "two control messages from everyone");
    std::vector<int> seen(index(me.size()));
    for (const auto& [from, text] : me.listener.controls()) {
      const std::size_t length = seen[index(from)]++ == 0 ? 3 : Transport::max_control;
      EXPECT_EQ(text, std::string(length, static_cast<char>('a' + from)));
    }
    me.meet("the end");
  });
}

TEST_P(TransportConformance, a_sleeper_is_woken_and_not_kept_awake) {
  if (GetParam().chaos) GTEST_SKIP() << "a transport under chaos is kept awake by what it delays";
  for (const int size : {2, 4})
    run(size, [](Rank& me) {
      for (const std::size_t bytes : {std::size_t{8}, std::size_t{1} << 20}) {
        const Block out = pattern(bytes, 1);
        Block in(bytes);
        me.meet("the start");
        Outcome& received = me.recv(me.prev(), tag(bytes), in);
        if (me.rank() == 0) std::this_thread::sleep_for(std::chrono::milliseconds(100));
        Outcome& sent = me.send(me.next(), tag(bytes), out);
        const int wakes = me.until_asleep([&] { return sent.done() && received.done(); }, "a message, asleep");
        EXPECT_TRUE(sent.ok() && received.ok());
        EXPECT_TRUE(same(in, out));
        // Each packet may wake the rank when it is sent and when it arrives; polls would be 100,000s.
        EXPECT_LT(wakes, 500 + static_cast<int>(2 * bytes / 1024)) << "it hardly slept";
      }
      me.transport->control(me.next(), std::as_bytes(std::span("hello")));
      me.until_asleep([&] { return !me.listener.controls().empty(); }, "a control message, asleep");
      me.meet("the end");
    });
}

TEST_P(TransportConformance, cancel_ends_a_group_and_leaves_the_others_alone) {
  run_all([](Rank& me) {
    const Status why = Status::failure(Code::aborted, "enough");
    const Block large = pattern(300'000, 1), small = pattern(100, 2);
    for (int round = 0; round < 8; ++round) {
      const auto group = static_cast<std::uint64_t>(10 + round);
      Block in(large.size()), never(large.size()), unasked(100);
      std::vector<Outcome*> open{&me.send(me.next(), tag(1, group), large), &me.recv(me.prev(), tag(1, group), in),
                                 &me.send(me.next(), tag(2, group), large), &me.recv(me.prev(), tag(3, group), never)};
      Outcome& eager = me.send(me.next(), tag(4, group), small);
      for (int step = 0; step < round * round; ++step) me.transport->progress();
      me.transport->cancel(group, why);
      for (Outcome* one : open) {
        EXPECT_TRUE(one->done());
        EXPECT_TRUE(one->status.ok() || one->status.code() == Code::aborted) << one->status.text();
      }
      EXPECT_EQ(open[1 + 1]->status.code(), Code::aborted);
      EXPECT_EQ(open[3]->status.code(), Code::aborted);
      std::memset(in.data(), 0, in.size());
      Outcome& sent = me.send(me.next(), tag(1, 1), large);
      Block again(large.size());
      me.finish(me.recv(me.prev(), tag(1, 1), again), "another group after cancel()");
      me.finish(sent, "another group after cancel()");
      EXPECT_TRUE(same(again, large));
      EXPECT_TRUE(same(in, Block(large.size()))) << "written to after cancel()";
      EXPECT_TRUE(eager.done());
      me.meet("the end of a round");
    }
  });
}

TEST_P(TransportConformance, a_mismatch_is_told_to_both_ends) {
  run(3, [](Rank& me) {
    std::vector<float> four(4);
    const auto call_of = [&](Kind kind) {
      Collective call;
      call.kind = kind;
      call.in = ConstBuffer(four);
      call.out = Buffer(four);
      return signature(call, me.rank(), me.size()).bits;
    };
    const std::uint64_t broadcast = call_of(Kind::broadcast), allreduce = call_of(Kind::allreduce);
    for (const std::size_t bytes : {std::size_t{16}, std::size_t{100'000}}) {
      const std::uint64_t group = 20 + bytes;
      const Block out = pattern(bytes, 1);
      Block in(bytes);
      const std::size_t told_before = me.listener.causes().size();
      Status told;
      if (me.rank() == 2) {
        Outcome& sent = me.send(0, tag(1, group), out, broadcast);
        me.until([&] { return (sent.done() && !sent.status.ok()) || me.listener.causes().size() > told_before; },
                 "news of the mismatch at the sender");
        told = sent.status.ok() ? Status(me.listener.causes().back()) : sent.status;
      } else if (me.rank() == 0) {
        Outcome& received = me.recv(2, tag(1, group), in, allreduce);
        me.until([&] { return received.done(); }, "the mismatch at the receiver");
        told = received.status;
      }
      if (me.rank() != 1) {
        EXPECT_EQ(told.code(), Code::mismatch);
        ASSERT_FALSE(told.ok());
        EXPECT_EQ(told.cause().group, group);
        EXPECT_THAT(std::string(told.text()), ::testing::StartsWith("rank 2 called " + describe({broadcast}) +
                                                                    ", rank 0 called " + describe({allreduce})));
      }
      me.meet("the next size");
    }
    const Block out = pattern(100, 1);
    Block in(100);
    me.send(me.next(), tag(9), out);
    me.finish(me.recv(me.prev(), tag(9), in), "a message after the mismatch");
    me.meet("the end");
  });
}

TEST_P(TransportConformance, a_rank_that_left_is_lost_only_to_those_who_need_it) {
  run(4, [](Rank& me) {
    const Block out = pattern(100, 1);
    Block in(100), late(100);
    me.send(me.next(), tag(1), out);  // opens the streams that are used below
    me.finish(me.recv(me.prev(), tag(1), in), "a message");
    if (me.rank() == 0) {
      me.finish(me.send(1, tag(2), out), "a last message");
      me.meet("the departure");
      return;
    }
    me.meet("the departure");
    if (me.rank() == 1) {
      me.finish(me.recv(0, tag(2), in), "what rank 0 sent before it left");
      EXPECT_EQ(in, out);
      Outcome& received = me.recv(0, tag(3), late);
      me.until([&] { return received.done(); }, "word that rank 0 has ended");
      EXPECT_EQ(received.status.code(), Code::peer_lost);
      EXPECT_THAT(std::string(received.status.text()), ::testing::StartsWith("rank 0 has ended"));
      ASSERT_FALSE(received.status.ok());
      EXPECT_EQ(received.status.cause().culprit, 0);
      Outcome& sent = me.send(0, tag(3), out);
      me.until([&] { return sent.done(); }, "word that rank 0 has ended");
      EXPECT_EQ(sent.status.code(), Code::peer_lost);
    }
    const int after[] = {0, 2, 3, 1};  // the next rank in a ring without rank 0
    Outcome& sent = me.send(after[index(me.rank())], tag(5), out);
    me.finish(me.recv(me.rank() == 1 ? 3 : me.rank() - 1, tag(5), in), "the ring without rank 0");
    me.finish(sent, "the ring without rank 0");
    EXPECT_TRUE(me.listener.causes().empty()) << me.listener.causes().front().text;
  });
}

TEST_P(TransportConformance, a_cause_spreads_to_everyone) {
  run(4, [](Rank& me) {
    const Block out = pattern(100, 1);
    Block in(100);
    for (int peer = 0; peer < me.size(); ++peer) me.send(peer, tag(1), out);
    for (int peer = 0; peer < me.size(); ++peer) me.finish(me.recv(peer, tag(1), in), "a message");
    me.finish_all("a message from everyone");
    me.meet("the failure");
    if (me.rank() == 1) {
      Cause why;
      why.code = Code::aborted;
      why.culprit = 2;
      why.reporter = 1;
      why.group = 77;
      why.say("rank 2 is tired");
      me.transport->spread(why);
    } else {
      me.until([&] { return me.transport->watch(), !me.listener.causes().empty(); }, "the news");
      const Cause heard = me.listener.causes().front();
      EXPECT_EQ(heard.code, Code::aborted);
      EXPECT_EQ(heard.culprit, 2);
      EXPECT_EQ(heard.reporter, 1);
      EXPECT_EQ(heard.group, 77u);
      EXPECT_STREQ(heard.text, "rank 2 is tired");
    }
    me.meet("the end");
  });
}

INSTANTIATE_TEST_SUITE_P(Ways, TransportConformance, ::testing::ValuesIn(testing::all_ways()),
                         [](const auto& one) { return one.param.name(); });

}  // namespace
}  // namespace tutti
