// The stream protocol in failures: cancelled operations, ranks that leave or die, and corrupt streams.
#include <gmock/gmock.h>

#include "tests/support/memory_ranks.hpp"
#include "tests/support/thinned.hpp"
#include "transports/stream/frames.hpp"

namespace tutti {
namespace {

using stream::Frame;
using stream::FrameType;
using testing::MemoryNet;
using testing::MemoryRanks;
using testing::Outcome;
using testing::pattern;
using Block = std::vector<std::byte>;

Tag tag(std::uint32_t sequence, std::uint64_t group = 1) { return {group, sequence, 0}; }
const Status enough = Status::failure(Code::aborted, "enough");

void expect_usable(MemoryRanks& ranks) {
  const Block small = pattern(700, 8), large = pattern(20'000, 9);
  Block got_small(small.size()), got_large(large.size());
  for (const int from : {0, 1}) {
    Outcome& a = ranks.recv(1 - from, from, tag(90, 2), got_small);
    Outcome& b = ranks.recv(1 - from, from, tag(91, 2), got_large);
    Outcome& c = ranks.send(from, 1 - from, tag(91, 2), large);
    Outcome& d = ranks.send(from, 1 - from, tag(90, 2), small);
    ranks.settle();
    EXPECT_TRUE(a.ok() && b.ok() && c.ok() && d.ok());
    EXPECT_EQ(got_small, small);
    EXPECT_EQ(got_large, large);
  }
}

const std::vector<int> moments = testing::thinned
                                     ? std::vector{0, 1, 2, 3, 5, 7, 10, 19, 45}
                                     : std::vector{0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 12, 15, 19, 24, 30, 45};

// Cancels a message of each kind after different numbers of steps, at one end or both.
void cancel_in_every_state(const StreamLimits& limits, MemoryNet::Placed placed = MemoryNet::Placed::never,
                           int width = 1) {
  for (const std::size_t bytes : {std::size_t{0}, std::size_t{300}, std::size_t{16'384}, std::size_t{150'000}})
    for (const int who : {0, 1, 2})      // the sender, the receiver, both
      for (const int order : {0, 1, 2})  // recv first, send first, no recv
        for (const int steps : moments) {
          MemoryRanks ranks(2, bytes < 1000 ? 20 : 9000, 30'000, static_cast<unsigned>(steps), limits, placed, width);
          Block out = pattern(bytes, 1), in(bytes);
          std::vector<Outcome*> at[2];
          if (order == 0) at[1].push_back(&ranks.recv(1, 0, tag(1), in));
          at[0].push_back(&ranks.send(0, 1, tag(1), out));
          for (int i = 0; i < steps; ++i) {
            if (i == 3 && order == 1) at[1].push_back(&ranks.recv(1, 0, tag(1), in));
            ranks[i % 2].progress();
          }
          for (const int rank : {0, 1}) {
            if (who != rank && who != 2) continue;
            ranks[rank].cancel(1, enough);
            for (const Outcome* one : at[rank]) {
              EXPECT_EQ(one->runs, 1);
              EXPECT_TRUE(one->status.ok() || one->status.code() == Code::aborted);
            }
            std::vector<std::byte>& mine = rank == 0 ? out : in;
            if (!mine.empty()) mine.assign(mine.size(), std::byte{0x5a});
          }
          const Block before = in;
          expect_usable(ranks);
          EXPECT_TRUE(who == 0 || in == before) << "written to after cancel()";
          const bool taken = who == 0 && at[1].size() == 1 && at[1][0]->ok();
          EXPECT_TRUE(!taken || in == pattern(bytes, 1)) << "half a message was taken for whole";
          for (const int rank : {0, 1}) ranks[rank].cancel(0, enough);
          EXPECT_EQ(ranks.open(), 0);
          if (::testing::Test::HasFailure()) {
            ADD_FAILURE() << bytes << " bytes, who " << who << ", order " << order << ", steps " << steps;
            return;
          }
        }
}

// Limits with which the announcement of a larger message carries its beginning.
constexpr StreamLimits with_beginnings{4000, 20'000, 3000, 9000};

TEST(stream_failures, cancel_in_every_state_keeps_the_stream_intact) { cancel_in_every_state({}); }

TEST(stream_failures, cancel_in_every_state_of_a_beginning_keeps_the_stream_intact) {
  cancel_in_every_state(with_beginnings);
}

TEST(stream_failures, cancel_in_every_state_keeps_several_streams_intact) {
  cancel_in_every_state({}, MemoryNet::Placed::never, 3);
  cancel_in_every_state(with_beginnings, MemoryNet::Placed::never, 3);
}

TEST(stream_failures, cancel_in_every_state_of_a_put_keeps_the_stream_intact) {
  cancel_in_every_state({}, MemoryNet::Placed::always);
  cancel_in_every_state({}, MemoryNet::Placed::in_part);
}

TEST(stream_failures, a_cancelled_group_is_remembered_and_its_credit_comes_back) {
  MemoryRanks ranks(2, MemoryNet::unlimited);
  ranks[1].cancel(7, enough);
  const Block out = pattern(16'000, 1);
  for (std::uint32_t i = 0; i < 40; ++i) {
    EXPECT_FALSE(ranks.send(0, 1, tag(i, 7), out).done());
    ranks.settle();
  }
  EXPECT_EQ(ranks.open(), 0) << "dropped messages gave their credit back";
  Block in(16'000);
  Outcome& late = ranks.recv(1, 0, tag(1, 7), in);
  ranks.settle();
  EXPECT_EQ(late.status.code(), Code::aborted);
  expect_usable(ranks);
}

TEST(stream_failures, messages_to_oneself_of_any_size) {
  MemoryRanks ranks(1, MemoryNet::unlimited);
  std::deque<Block> in;
  for (const std::size_t bytes : {0, 1, 16'384, 16'385, 3'000'000})
    for (const bool recv_first : {true, false}) {
      const Block out = pattern(bytes, 1);
      Block& into = in.emplace_back(bytes);
      if (recv_first) ranks.recv(0, 0, tag(1), into);
      ranks.send(0, 0, tag(1), out);
      ranks.settle();
      if (!recv_first) ranks.recv(0, 0, tag(1), into);
      ranks.expect_all_ok();
      EXPECT_EQ(into, out);
    }
  EXPECT_EQ(ranks.net.stream(0, 0).total, 0u);
  const Block out = pattern(100'000, 1);
  Block other(99'999);
  Outcome& sent = ranks.send(0, 0, tag(2), out);
  Outcome& received = ranks.recv(0, 0, tag(2), other);
  ranks.settle();
  EXPECT_EQ(sent.status.code(), Code::mismatch);
  EXPECT_EQ(received.status.code(), Code::mismatch);
  Outcome& waiting = ranks.send(0, 0, tag(3), out);
  ranks[0].cancel(1, enough);
  EXPECT_EQ(waiting.status.code(), Code::aborted);
}

TEST(stream_failures, callbacks_may_start_and_cancel_operations) {
  MemoryRanks ranks(2, 500);
  const Block out = pattern(1000, 1);
  Block in(1000);
  int received = 0;
  std::function<void(const Status&)> again = [&](const Status& status) {
    if (!status.ok()) return;
    if (++received == 50) return ranks[1].cancel(1, enough);
    ranks[1].recv(0, tag(1), 0, in, again);
    ranks[1].recv(0, tag(2), 0, in, [](const Status&) {});
  };
  ranks[1].recv(0, tag(1), 0, in, again);
  std::function<void(const Status&)> more = [&](const Status& status) {
    if (status.ok() && received < 50) ranks[0].send(1, tag(1), 0, out, more);
  };
  ranks[0].send(1, tag(1), 0, out, more);
  ranks.settle();
  EXPECT_EQ(received, 50);
  expect_usable(ranks);
}

TEST(stream_failures, a_goodbye_comes_last_and_ends_what_waits) {
  MemoryRanks ranks(3, 4000);
  const Block out = pattern(10'000, 1), large = pattern(100'000, 1);
  Block in(10'000), never(100'000);
  ranks.net.room = MemoryNet::unlimited;
  ranks.send(0, 1, tag(1), out);
  Outcome& wants = ranks.recv(1, 0, tag(9), never);
  Outcome& offers = ranks.send(1, 0, tag(9), large);
  ranks[0].progress();
  ranks.leave(0);
  ranks.settle();
  EXPECT_THAT(ranks.net.farewells[1], ::testing::ElementsAre(0));
  ASSERT_EQ(wants.status.code(), Code::peer_lost);
  EXPECT_EQ(wants.status.cause().culprit, 0);
  EXPECT_EQ(offers.status.code(), Code::peer_lost);
  Outcome& late = ranks.send(1, 0, tag(2), out);
  EXPECT_TRUE((ranks.settle(), late.done()));
  EXPECT_EQ(late.status.code(), Code::peer_lost);
  Outcome& whole = ranks.recv(1, 0, tag(1), in);
  EXPECT_TRUE((ranks.settle(), whole.ok())) << "what was sent before the goodbye can be received";
  EXPECT_EQ(in, out);
  EXPECT_TRUE(ranks.listener(1).causes().empty());
  EXPECT_THAT(ranks.net.drops[1], ::testing::ElementsAre(0));
}

Cause death_of(int rank) {
  Cause why;
  why.code = Code::peer_lost;
  why.culprit = rank;
  why.say("it was killed");
  return why;
}

TEST(stream_failures, what_a_dead_rank_had_sent_is_read_before_it_is_dropped) {
  MemoryRanks ranks(2, MemoryNet::unlimited);
  const Block out = pattern(10'000, 1);
  Block first(10'000), second(10'000), third(10'000);
  Outcome& posted = ranks.recv(1, 0, tag(1), first);
  for (const std::uint32_t i : {1u, 2u}) ranks.send(0, 1, tag(i), out);
  ranks[1].spread(death_of(0));  // rank 1 has not read the stream yet
  Outcome& waiting = ranks.recv(1, 0, tag(2), second);
  Outcome& never = ranks.recv(1, 0, tag(3), third);
  while (ranks[1].progress()) continue;
  EXPECT_TRUE(posted.ok());
  EXPECT_TRUE(waiting.ok());
  EXPECT_EQ(first, out);
  EXPECT_EQ(second, out);
  EXPECT_EQ(never.status.code(), Code::peer_lost);
  EXPECT_THAT(ranks.net.drops[1], ::testing::ElementsAre(0));
  EXPECT_EQ(ranks.net.stream(0, 1).unread(), 0u);
}

TEST(stream_failures, a_wire_hears_of_recvs_that_nothing_has_come_for) {
  MemoryRanks ranks(2, MemoryNet::unlimited);
  const Block out = pattern(100, 1);
  Block in(100), late(100);
  ranks.send(0, 1, tag(1), out);
  ranks.settle();
  ranks.recv(1, 0, tag(1), in);
  EXPECT_TRUE(ranks.net.expectations[1].empty());
  ranks.recv(1, 0, tag(2), late);
  EXPECT_THAT(ranks.net.expectations[1], ::testing::ElementsAre(0));
  ranks.send(0, 1, tag(2), out);
  ranks.expect_all_ok();
}

TEST(stream_failures, a_spread_cause_reaches_everyone_ahead_of_the_queue) {
  MemoryRanks ranks(3, MemoryNet::unlimited, 2'000);
  const Block out = pattern(16'000, 1);
  for (std::uint32_t i = 0; i < 4; ++i) ranks.send(0, 1, tag(i), out);
  Block in(100);
  Outcome& pending = ranks.recv(0, 2, tag(1), in);
  Cause why;
  why.code = Code::peer_lost;
  why.culprit = 2;
  why.reporter = 0;
  why.say("rank 2 was killed");
  ranks[0].spread(why);
  EXPECT_FALSE(pending.done()) << "a callback ran inside spread()";
  std::size_t read = 0;
  while (ranks.listener(1).causes().empty() && read++ < 1000) ranks[0].progress(), ranks[1].progress();
  ASSERT_EQ(ranks.listener(1).causes().size(), 1u);
  EXPECT_STREQ(ranks.listener(1).causes()[0].text, "rank 2 was killed");
  EXPECT_LE(ranks.net.stream(0, 1).total, 16'000 + 2'000 + 2 * sizeof(Frame) + sizeof(Cause))
      << "it waited in the queue";
  EXPECT_EQ(pending.status.code(), Code::peer_lost);
  EXPECT_EQ(ranks.net.stream(0, 2).total, sizeof(Frame) + sizeof(Cause)) << "only the cause is sent to the dead";
  ranks.settle();
}

TEST(stream_failures, a_rank_that_lives_although_it_is_lost_hears_that_it_is) {
  MemoryRanks ranks(2, 30);  // each write takes a part of the frame
  const Block out = pattern(16'000, 1);
  ranks.send(0, 1, tag(1), out);
  ranks[0].spread(death_of(1));
  while (ranks[1].progress()) continue;
  EXPECT_TRUE(ranks.listener(1).causes().empty()) << "the room for a whole message was not there";

  MemoryRanks with_room(2, MemoryNet::unlimited);
  with_room.send(0, 1, tag(1), out);
  with_room[0].spread(death_of(1));
  while (with_room[1].progress()) continue;
  ASSERT_EQ(with_room.listener(1).causes().size(), 1u);
  EXPECT_EQ(with_room.listener(1).causes()[0].culprit, 1);
}

TEST(stream_failures, a_peer_that_connects_after_a_failure_is_told_the_cause) {
  MemoryRanks ranks(3, MemoryNet::unlimited);
  ranks.net.closed = {{0, 1}};
  ranks[0].spread(death_of(2));
  ranks.settle();
  EXPECT_TRUE(ranks.listener(1).causes().empty());
  ranks.net.closed.clear();
  const Block out = pattern(100, 1);
  ranks.send(1, 0, tag(1), out);  // rank 0 polls the stream once it is open
  ranks.settle();
  ASSERT_EQ(ranks.listener(1).causes().size(), 1u);
  EXPECT_EQ(ranks.listener(1).causes()[0].culprit, 2);
  ranks.send(1, 0, tag(2), out);
  ranks.settle();
  EXPECT_EQ(ranks.listener(1).causes().size(), 1u) << "it is told once";
}

TEST(stream_failures, what_was_placed_whole_has_come_although_its_sender_is_gone) {
  for (const bool dead : {false, true}) {
    MemoryRanks ranks(2, MemoryNet::unlimited, 100'000, 1, {}, MemoryNet::Placed::always);
    const Block out = pattern(40'000, 1);
    Block in(out.size());
    Outcome& received = ranks.recv(1, 0, tag(1), in);
    Outcome& sent = ranks.send(0, 1, tag(1), out);
    for (int i = 0; i < 20 && !sent.done(); ++i) {
      ranks[0].progress();
      if (ranks.net.filled == 0) ranks[1].progress();
    }
    ASSERT_TRUE(sent.ok());
    ASSERT_FALSE(received.done());
    if (dead)
      ranks[1].spread(Status::failure(Code::peer_lost, "rank 0 is gone", 0).cause());
    else
      ranks.leave(0);
    ranks[1].progress();
    EXPECT_TRUE(received.ok()) << received.status.text();
    EXPECT_EQ(in, out);
  }
}

void inject(MemoryRanks& ranks, ConstBytes bytes) {
  MemoryNet::Stream& stream = ranks.net.stream(0, 1);
  stream.bytes.insert(stream.bytes.end(), bytes.begin(), bytes.end());
}

TEST(stream_failures, data_frames_of_what_has_been_placed_go_nowhere) {
  MemoryRanks ranks(2, MemoryNet::unlimited, 100'000, 1, {}, MemoryNet::Placed::always);
  const Block out = pattern(40'000, 1);
  Block in(out.size());
  Outcome& received = ranks.recv(1, 0, tag(1), in);
  ranks.send(0, 1, tag(1), out);
  for (int i = 0; i < 20 && ranks.net.puts.empty(); ++i) {
    ranks[0].progress();
    ranks[1].progress();
  }
  ASSERT_EQ(ranks.net.puts.size(), 1u);
  const Frame frame(FrameType::data, tag(1), 0, out.size(), ranks.net.puts.front().recv);
  inject(ranks, {reinterpret_cast<const std::byte*>(&frame), sizeof(frame)});
  inject(ranks, ConstBytes(out).first(1000));
  ranks[1].progress();
  ASSERT_FALSE(received.done());
  ranks[0].progress();
  ranks[1].progress();
  ASSERT_TRUE(received.ok());
  in.assign(in.size(), std::byte{0x5a});
  inject(ranks, ConstBytes(out).subspan(1000));
  ranks.settle();
  EXPECT_EQ(in, Block(in.size(), std::byte{0x5a}));
  EXPECT_EQ(received.runs, 1);
}

TEST(stream_failures, garbage_is_a_protocol_error_that_names_the_peer) {
  std::mt19937 random(5);
  int refused = 0;
  for (int round = 0; round < 3000; ++round) {
    MemoryRanks ranks(2, MemoryNet::unlimited);
    Block in(200'000), with(200'000);
    ranks.recv(1, 0, tag(1), in);
    ranks.send(1, 0, tag(2), with);
    ranks.settle();
    Frame frame;  // a valid magic and random fields
    frame.type = static_cast<FrameType>(random() % 12);
    frame.group = 1;
    frame.sequence = static_cast<std::uint32_t>(random() % 3);
    frame.bytes = random() % 4 ? random() % 300'000 : ~std::uint64_t{0} - random() % 100;
    frame.id = random() % 3;
    Block noise(64 + random() % 2000);
    for (std::byte& byte : noise) byte = static_cast<std::byte>(random());
    if (round % 3) inject(ranks, {reinterpret_cast<const std::byte*>(&frame), sizeof(frame)});
    inject(ranks, noise);
    ranks.settle();
    for (const Cause& why : ranks.listener(1).causes()) {
      if (why.code != Code::protocol || why.culprit != 0) continue;
      ++refused;
      EXPECT_THAT(ranks.net.drops[1], ::testing::ElementsAre(0));
      EXPECT_THAT(std::string(why.text), ::testing::StartsWith("rank 0 sent rank 1 "));
      EXPECT_EQ(ranks.open(), 0) << "operations with the peer have ended";
    }
    ranks[1].cancel(0, enough);
    ranks[0].cancel(0, enough);
  }
  EXPECT_GT(refused, 2000);
}

TEST(stream_failures, credit_that_was_never_granted_is_refused) {
  MemoryRanks ranks(2, MemoryNet::unlimited);
  const Block payload(StreamLimits{}.eager);
  for (int i = 0; i < 5; ++i) {
    const Frame frame(FrameType::eager, tag(1), 0, payload.size());
    inject(ranks, {reinterpret_cast<const std::byte*>(&frame), sizeof(frame)});
    inject(ranks, payload);
  }
  ranks.settle();
  ASSERT_EQ(ranks.listener(1).causes().size(), 1u) << "the fifth 16 KiB exceed 64 KiB";
  EXPECT_EQ(ranks.listener(1).causes()[0].code, Code::protocol);
}

}  // namespace
}  // namespace tutti
