// The stream protocol over a wire in memory that moves random numbers of bytes at a time.
#include <gmock/gmock.h>

#include "tests/support/memory_ranks.hpp"
#include "tests/support/thinned.hpp"
#include "transports/stream/frames.hpp"
#include "tutti/collective.hpp"

namespace tutti {
namespace {

using stream::Frame;
using stream::FrameType;
using testing::MemoryNet;
using testing::MemoryRanks;
using testing::Outcome;
using testing::pattern;

Tag tag(std::uint32_t sequence, std::uint64_t group = 1) { return {group, sequence, 0}; }

void random_traffic(std::size_t piece, unsigned seed, int messages, const StreamLimits& limits = {},
                    MemoryNet::Placed placed = MemoryNet::Placed::never, int width = 1) {
  if (testing::thinned && placed == MemoryNet::Placed::never) messages /= 3;
  SCOPED_TRACE("pieces of up to " + std::to_string(piece) + ", seed " + std::to_string(seed));
  MemoryRanks ranks(3, piece, 50'000, seed, limits, placed, width);
  std::mt19937 random(seed);
  const std::size_t lengths[] = {0, 1, 7, 8, 100, 4096, 16383, 16384, 16385, 40'000, 131'071, 131'073, 300'000};
  const auto pick = [&](std::size_t n) { return std::uniform_int_distribution<std::size_t>(0, n - 1)(random); };
  struct Message {
    int from, to;
    Tag t;
    std::vector<std::byte> out, in;
  };
  std::deque<Message> all;
  std::vector<Message*> sends, recvs;  // in order of creation, so that equal tags pair up
  for (int i = 0; i < messages; ++i) {
    const std::size_t bytes = piece == 1 ? pick(2000) : lengths[pick(std::size(lengths))];
    Message& m = all.emplace_back();
    m = {static_cast<int>(pick(3)), static_cast<int>(pick(3)), tag(static_cast<std::uint32_t>(pick(5))),
         pattern(bytes, static_cast<std::size_t>(i)), std::vector<std::byte>(bytes)};
    sends.push_back(&m);
    recvs.push_back(&m);
  }
  for (std::size_t s = 0, r = 0; s < sends.size() || r < recvs.size();) {
    const bool sending = r == recvs.size() || (s < sends.size() && pick(2) == 0);
    Message& m = sending ? *sends[s++] : *recvs[r++];
    if (sending)
      ranks.send(m.from, m.to, m.t, m.out);
    else
      ranks.recv(m.to, m.from, m.t, m.in);
    if (pick(3) == 0) ranks[static_cast<int>(pick(3))].progress();
  }
  ranks.expect_all_ok();
  for (const Message& m : all) EXPECT_EQ(m.in, m.out) << m.from << " to " << m.to << ", " << m.out.size() << " bytes";
  EXPECT_EQ(ranks.net.filled > 10, placed != MemoryNet::Placed::never);
  EXPECT_EQ(ranks.net.failed > 10, placed == MemoryNet::Placed::in_part);
  EXPECT_TRUE(ranks.net.offers.empty()) << "memory that a peer may still write to";
}

TEST(stream_transport, random_messages_arrive_in_any_pieces) {
  random_traffic(1, 1, 1000);
  random_traffic(13, 2, 300);
  random_traffic(4000, 3, 2000);
  random_traffic(MemoryNet::unlimited, 4, 2000);
}

TEST(stream_transport, random_messages_arrive_that_begin_with_their_announcement) {
  const StreamLimits limits{4000, 20'000, 3000, 9000};
  random_traffic(13, 5, 300, limits);
  random_traffic(4000, 6, 2000, limits);
  random_traffic(MemoryNet::unlimited, 7, 2000, limits);
}

TEST(stream_transport, random_messages_arrive_past_the_stream_or_by_it_after_all) {
  for (const auto placed : {MemoryNet::Placed::always, MemoryNet::Placed::in_part}) {
    random_traffic(4000, 5, 1000, {}, placed);
    random_traffic(MemoryNet::unlimited, 6, 2000, {}, placed);
  }
}

TEST(stream_transport, random_messages_arrive_by_several_streams) {
  for (const StreamLimits& limits : {StreamLimits{}, StreamLimits{4000, 20'000, 3000, 9000}}) {
    random_traffic(13, 8, 300, limits, MemoryNet::Placed::never, 4);
    random_traffic(4000, 9, 2000, limits, MemoryNet::Placed::never, 4);
    random_traffic(MemoryNet::unlimited, 10, 2000, limits, MemoryNet::Placed::never, 2);
  }
  random_traffic(4000, 11, 1000, {}, MemoryNet::Placed::in_part, 3);
}

TEST(stream_transport, folds_as_it_arrives_with_elements_cut_anywhere) {
  for (const std::size_t piece : {std::size_t{1}, std::size_t{3}, std::size_t{11}, std::size_t{5000}}) {
    for (const std::size_t count : {1u, 3u, 2000u, 5000u}) {
      MemoryRanks ranks(2, piece, 9000);
      std::vector<double> out(count), in(count), expected_first(count);
      for (std::size_t i = 0; i < count; ++i) out[i] = static_cast<double>(i), in[i] = 1000.0;
      std::vector<double> into(count);
      Outcome early, late;
      const auto bytes = [](auto& v) { return std::as_writable_bytes(std::span(v)); };
      const Fold fold{DType::f64, Op::sum, 1.0};
      ranks[1].recv_reduce(0, tag(1), 0, bytes(into), bytes(in).data(), fold, MemoryRanks::note(early));
      ranks.send(0, 1, tag(1), bytes(out));
      ranks.settle();
      ranks.send(0, 1, tag(2), bytes(out));
      ranks.settle();  // the second message is unexpected; it is reduced from its buffer, in place
      ranks[1].recv_reduce(0, tag(2), 0, bytes(in), bytes(in).data(), fold, MemoryRanks::note(late));
      ranks.settle();
      EXPECT_TRUE(early.ok() && late.ok());
      for (std::size_t i = 0; i < count; ++i) {
        EXPECT_EQ(into[i], 1000.0 + static_cast<double>(i));
        EXPECT_EQ(in[i], 1000.0 + static_cast<double>(i));
      }
    }
  }
}

TEST(stream_transport, a_thousand_unmatched_sends_wait_within_the_credit) {
  MemoryRanks ranks(2, MemoryNet::unlimited, std::size_t{1} << 30);
  std::vector<std::vector<std::byte>> out;
  for (std::size_t i = 0; i < 1000; ++i) out.push_back(pattern(1000, i));
  for (std::size_t i = 0; i < 1000; ++i) ranks.send(0, 1, tag(static_cast<std::uint32_t>(i)), out[i]);
  ranks.settle();
  const std::size_t carried = ranks.net.stream(0, 1).total;
  EXPECT_LE(carried, StreamLimits{}.credit + 1000 * sizeof(Frame));
  EXPECT_EQ(ranks.open(), 1000 - static_cast<int>(StreamLimits{}.credit / 1000));
  std::vector<std::byte> in(1000);
  for (std::size_t i = 1000; i-- > 0;) {
    ranks.recv(1, 0, tag(static_cast<std::uint32_t>(i)), in);
    ranks.settle();
    EXPECT_EQ(in, out[i]);
  }
  ranks.expect_all_ok();
}

TEST(stream_transport, credit_comes_back_in_batches) {
  MemoryRanks ranks(2, MemoryNet::unlimited);
  const auto out = pattern(1024, 1);
  std::vector<std::byte> in(1024);
  for (int i = 0; i < 640; ++i) {
    ranks.recv(1, 0, tag(1), in);
    ranks.send(0, 1, tag(1), out);
    ranks.settle();
  }
  ranks.expect_all_ok();
  EXPECT_EQ(ranks.net.stream(0, 1).total, 640 * (1024 + sizeof(Frame))) << "every message went eagerly";
  EXPECT_EQ(ranks.net.stream(1, 0).total, 20 * sizeof(Frame)) << "one credit frame for 32 KiB";
}

TEST(stream_transport, answers_carry_the_credit_back) {
  MemoryRanks ranks(2, MemoryNet::unlimited);
  const auto out = pattern(1024, 1);
  std::vector<std::byte> in(1024);
  for (int i = 0; i < 640; ++i)
    for (const int from : {0, 1}) {
      ranks.recv(1 - from, from, tag(1), in);
      ranks.send(from, 1 - from, tag(1), out);
      ranks.settle();
    }
  ranks.expect_all_ok();
  EXPECT_EQ(ranks.net.stream(0, 1).total, 640 * (1024 + sizeof(Frame)));
  EXPECT_EQ(ranks.net.stream(1, 0).total, 640 * (1024 + sizeof(Frame)));
}

TEST(stream_transport, a_large_unmatched_send_holds_up_nothing) {
  MemoryRanks ranks(2, MemoryNet::unlimited);
  const auto large = pattern(64 << 20, 1), small = pattern(100'000, 2);
  std::vector<std::byte> into_large(large.size()), into_small(small.size());
  ranks.send(0, 1, tag(2), large);
  ranks.send(0, 1, tag(1), small);
  Outcome& first = ranks.recv(1, 0, tag(1), into_small);
  ranks.settle();
  EXPECT_TRUE(first.ok());
  EXPECT_LT(ranks.net.stream(0, 1).total, 200'000u);
  ranks.recv(1, 0, tag(2), into_large);
  ranks.expect_all_ok();
  EXPECT_EQ(into_small, small);
  EXPECT_EQ(into_large, large);
}

TEST(stream_transport, large_messages_take_turns) {
  MemoryRanks ranks(2, MemoryNet::unlimited, 60'000);
  const auto large = pattern(4 << 20, 1), other = pattern(200'000, 2);
  std::vector<std::byte> into_large(large.size()), into_other(other.size());
  Outcome& slow = ranks.recv(1, 0, tag(1), into_large);
  Outcome& fast = ranks.recv(1, 0, tag(2), into_other);
  ranks.send(0, 1, tag(1), large);
  ranks.send(0, 1, tag(2), other);
  for (int i = 0; i < 1'000'000 && !fast.done(); ++i) ranks[i % 2].progress();
  EXPECT_TRUE(fast.ok());
  EXPECT_FALSE(slow.done()) << "the second message waited for all of the first";
  ranks.expect_all_ok();
}

TEST(stream_transport, a_step_is_bounded) {
  MemoryRanks ranks(2, MemoryNet::unlimited, std::size_t{1} << 30);
  const auto large = pattern(8 << 20, 1);
  std::vector<std::byte> into(large.size());
  ranks.recv(1, 0, tag(1), into);
  ranks.send(0, 1, tag(1), large);
  std::size_t before = 0;
  for (int i = 0; i < 1000; ++i) {
    ranks[i % 2].progress();
    const std::size_t total = ranks.net.stream(0, 1).total;
    EXPECT_LE(total - before, (256u << 10) + StreamLimits{}.chunk + sizeof(Frame));
    before = total;
  }
  ranks.expect_all_ok();
}

std::uint64_t call_of(Kind kind, std::vector<float>& data) {
  Collective call;
  call.kind = kind;
  call.in = ConstBuffer(data);
  call.out = Buffer(data);
  return signature(call, 0, 2).bits;
}

TEST(stream_transport, a_mismatch_is_told_to_both_ends) {
  std::vector<float> four(4);
  const std::uint64_t broadcast = call_of(Kind::broadcast, four), allreduce = call_of(Kind::allreduce, four);
  for (const std::size_t bytes : {std::size_t{16}, std::size_t{100'000}})
    for (const bool recv_first : {true, false}) {
      MemoryRanks ranks(3, 50);
      const auto out = pattern(bytes, 1);
      std::vector<std::byte> in(bytes);
      if (!recv_first) ranks.send(2, 0, tag(1, 7), out, broadcast), ranks.settle();
      Outcome& received = ranks.recv(0, 2, tag(1, 7), in, allreduce);
      if (recv_first) ranks.send(2, 0, tag(1, 7), out, broadcast);
      ranks.settle();
      const std::string expected =
          "rank 2 called " + describe({broadcast}) + ", rank 0 called " + describe({allreduce});
      EXPECT_EQ(received.status.code(), Code::mismatch);
      EXPECT_EQ(received.status.text().substr(0, expected.size()), expected);
      Cause told;
      if (bytes > StreamLimits{}.eager)
        told = ranks.outcomes[recv_first ? 1 : 0].status.cause();
      else if (!ranks.listener(2).causes().empty())
        told = ranks.listener(2).causes().front();  // an eager send has already completed
      EXPECT_EQ(told.code, Code::mismatch);
      EXPECT_EQ(told.group, 7u);
      EXPECT_EQ(std::string(told.text), received.status.text());
      ranks.send(2, 0, tag(2), out);  // the stream still works
      Outcome& again = ranks.recv(0, 2, tag(2), in);
      ranks.settle();
      EXPECT_TRUE(again.ok());
      EXPECT_EQ(in, out);
    }
}

TEST(stream_transport, other_sizes_are_a_mismatch_with_both_byte_counts) {
  MemoryRanks ranks(2, MemoryNet::unlimited);
  const auto out = pattern(100, 1);
  std::vector<std::byte> in(99);
  ranks.send(1, 0, tag(1), out);
  Outcome& received = ranks.recv(0, 1, tag(1), in);
  ranks.settle();
  EXPECT_EQ(received.status.code(), Code::mismatch);
  EXPECT_THAT(std::string(received.status.text()),
              ::testing::StartsWith("rank 1 sends 100 bytes and rank 0 expects 99"));
}

// The acknowledgement of a put may be lost, and its receiver gone, once the receiver has all that it waited for.
TEST(stream_transport, a_put_to_a_rank_that_ends_normally_is_done) {
  for (const bool dead : {false, true}) {
    MemoryRanks ranks(2, MemoryNet::unlimited, 100'000, 1, {}, MemoryNet::Placed::always);
    const auto out = pattern(40'000, 1);
    std::vector<std::byte> in(out.size());
    ranks.recv(1, 0, tag(1), in);
    Outcome& sent = ranks.send(0, 1, tag(1), out);
    for (int i = 0; i < 20 && ranks.net.puts.empty(); ++i) {
      ranks[0].progress();
      ranks[1].progress();
    }
    ASSERT_EQ(ranks.net.puts.size(), 1u);
    ranks.net.puts.clear();  // it is never acknowledged
    ASSERT_FALSE(sent.done());
    if (dead)
      ranks[0].spread(Status::failure(Code::peer_lost, "rank 1 is gone", 1).cause());
    else
      ranks.leave(1);
    ranks[0].progress();
    ASSERT_TRUE(sent.done());
    EXPECT_EQ(sent.ok(), !dead) << sent.status.text();
  }
}

}  // namespace
}  // namespace tutti
