// Several streams between two ranks: which parts of messages they carry, in any order of arrival.
#include <gmock/gmock.h>

#include <numeric>

#include "tests/support/memory_ranks.hpp"
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

constexpr StreamLimits with_beginnings{4000, 20'000, 3000, 8000};
constexpr std::size_t room = 50'000;

Tag tag(std::uint32_t sequence) { return {1, sequence, 0}; }

MemoryRanks several(int width, const StreamLimits& limits = {}) {
  return MemoryRanks(2, MemoryNet::unlimited, room, 1, limits, MemoryNet::Placed::never, width);
}

std::size_t carried(MemoryRanks& ranks, int nth) { return ranks.net.stream(0, 1, nth).total; }

// Makes progress until the sender has received the cts frame, and has written some data frames.
void until_granted(MemoryRanks& ranks) {
  while (ranks.net.widened.empty()) {
    ranks[0].progress();
    if (ranks.net.widened.empty()) ranks[1].progress();
  }
}

TEST(stream_width, a_large_message_goes_by_all_streams_and_costs_its_heads) {
  MemoryRanks ranks = several(4);
  const Block out = pattern(16 << 20, 1);
  Block in(out.size());
  ranks.recv(1, 0, tag(1), in);
  ranks.send(0, 1, tag(1), out);
  ranks.expect_all_ok();
  EXPECT_EQ(in, out);
  EXPECT_THAT(ranks.net.widened, ::testing::ElementsAre(out.size()));
  std::size_t total = 0;
  for (int nth = 0; nth < 4; ++nth) {
    EXPECT_GT(carried(ranks, nth), out.size() / 8);
    total += carried(ranks, nth);
  }
  EXPECT_EQ(total, out.size() + (1 + 4 * out.size() / StreamLimits{}.chunk) * sizeof(Frame))
      << "its announcement, its parts";
}

TEST(stream_width, small_messages_keep_to_the_first_stream) {
  MemoryRanks ranks = several(4);
  const Block out = pattern(10'000, 1);
  Block in(out.size());
  for (std::uint32_t i = 0; i < 200; ++i) {
    ranks.recv(1, 0, tag(i), in);
    ranks.send(0, 1, tag(i), out);
    ranks[0].control(1, ConstBytes(out).first(100));
    ranks.settle();
  }
  ranks.expect_all_ok();
  EXPECT_TRUE(ranks.net.widened.empty());
  for (int nth = 1; nth < 4; ++nth) EXPECT_EQ(carried(ranks, nth), 0u);
}

TEST(stream_width, a_stream_that_is_late_holds_up_no_other) {
  for (const StreamLimits& limits : {StreamLimits{}, with_beginnings})
    for (const int late : {1, 2}) {
      MemoryRanks ranks = several(3, limits);
      const Block out = pattern(2 << 20, 1), small = pattern(500, 2);
      Block in(out.size()), in_small(small.size());
      Outcome& received = ranks.recv(1, 0, tag(1), in);
      ranks.net.late = late;
      ranks.send(0, 1, tag(1), out);
      ranks.settle();
      EXPECT_EQ(carried(ranks, late), room) << "what it has room for";
      EXPECT_FALSE(received.done());
      const std::size_t behind = ranks.net.stream(0, 1, late).unread();
      const auto landed = static_cast<std::size_t>(
          std::inner_product(in.begin(), in.end(), out.begin(), 0L, std::plus<>(), std::equal_to<>()));
      EXPECT_GE(landed, out.size() - behind - limits.chunk) << "all that did not go by the late one";
      Outcome& overtakes = ranks.recv(1, 0, tag(2), in_small);
      ranks.send(0, 1, tag(2), small);
      ranks.settle();
      EXPECT_TRUE(overtakes.ok());
      ranks.net.late = -1;
      ranks.expect_all_ok();
      EXPECT_EQ(in, out);
    }
}

// The beginning of a message, which the first stream carries, may arrive last.
TEST(stream_width, the_beginning_may_come_last) {
  MemoryRanks ranks(2, 1000, room, 1, with_beginnings, MemoryNet::Placed::never, 2);
  const Block out = pattern(20'000, 1);
  Block in(out.size());
  Outcome& received = ranks.recv(1, 0, tag(1), in);
  ranks.send(0, 1, tag(1), out);
  until_granted(ranks);
  ranks.net.late = 0;
  ranks.settle();
  EXPECT_FALSE(received.done());
  ranks.net.late = -1;
  ranks.expect_all_ok();
  EXPECT_EQ(in, out);
}

TEST(stream_width, folds_each_element_once_in_whatever_order_parts_come) {
  for (const std::size_t piece : {std::size_t{3}, std::size_t{1000}, MemoryNet::unlimited})
    for (const StreamLimits& limits : {StreamLimits{}, with_beginnings}) {
      MemoryRanks ranks(2, piece, 9000, 1, limits, MemoryNet::Placed::never, 3);
      const Block odd = pattern(1003, 1);  // so that the credit left is no multiple of the alignment
      std::vector<double> out(100'001), with(out.size()), into(out.size());
      for (std::size_t i = 0; i < out.size(); ++i) out[i] = double(i), with[i] = 1000.0;
      ranks.send(0, 1, tag(9), odd);
      Outcome received;
      ranks[1].recv_reduce(0, tag(1), 0, std::as_writable_bytes(std::span(into)), std::as_bytes(std::span(with)).data(),
                           Fold{DType::f64, Op::sum, 1.0}, MemoryRanks::note(received));
      ranks.net.late = 1;
      Outcome& sent = ranks.send(0, 1, tag(1), std::as_bytes(std::span(out)));
      ranks.settle();
      EXPECT_FALSE(received.done());
      ranks.net.late = -1;
      ranks.settle();
      EXPECT_TRUE(sent.ok() && received.ok());
      for (std::size_t i = 0; i < out.size(); ++i) ASSERT_EQ(into[i], 1000.0 + double(i)) << i;
    }
}

TEST(stream_width, equal_tags_do_not_overtake) {
  MemoryRanks ranks = several(3, with_beginnings);
  std::vector<Block> out, in;
  for (std::size_t i = 0; i < 40; ++i) {
    const std::size_t bytes = i % 3 ? 60'000 + i : 100 + i;
    out.push_back(pattern(bytes, i));
    in.emplace_back(bytes);
  }
  ranks.net.late = 1;
  for (std::size_t i = 0; i < out.size(); ++i) ranks.send(0, 1, tag(1), out[i]), ranks.recv(1, 0, tag(1), in[i]);
  ranks.settle();
  ranks.net.late = -1;
  ranks.expect_all_ok();
  EXPECT_EQ(in, out);
}

TEST(stream_width, a_goodbye_does_not_cut_off_what_comes_by_another_stream) {
  for (const int late : {0, 1, 2}) {
    MemoryRanks ranks = several(3);
    const Block out = pattern(300'000, 1);
    Block in(out.size()), never(10);
    Outcome& received = ranks.recv(1, 0, tag(1), in);
    Outcome& waits = ranks.recv(1, 0, tag(2), never);
    ranks.net.room = MemoryNet::unlimited;
    Outcome& sent = ranks.send(0, 1, tag(1), out);
    until_granted(ranks);
    ranks.net.late = late;
    while (!sent.done()) ranks[0].progress();
    ranks.leave(0);
    ranks.settle();
    EXPECT_FALSE(received.done());
    EXPECT_FALSE(waits.done());
    ranks.net.late = -1;
    ranks.settle();
    EXPECT_TRUE(received.ok()) << received.status.text();
    EXPECT_EQ(in, out);
    EXPECT_EQ(waits.status.code(), Code::peer_lost);
    EXPECT_THAT(ranks.net.farewells[1], ::testing::UnorderedElementsAre(0, 2, 4)) << "one by each stream";
    EXPECT_THAT(ranks.net.drops[1], ::testing::ElementsAre(0));
    EXPECT_TRUE(ranks.listener(1).causes().empty());
  }
}

TEST(stream_width, only_parts_are_taken_from_a_further_stream) {
  for (const FrameType type : {FrameType::eager, FrameType::rts, FrameType::cts, FrameType::control, FrameType::abort,
                               FrameType::reject, FrameType::credit}) {
    MemoryRanks ranks = several(2);
    const Frame frame(type, tag(1), 0, type == FrameType::abort || type == FrameType::reject ? sizeof(Cause) : 0);
    const auto* const bytes = reinterpret_cast<const std::byte*>(&frame);
    MemoryNet::Stream& further = ranks.net.stream(0, 1, 1);
    further.bytes.insert(further.bytes.end(), bytes, bytes + sizeof(frame));
    ranks.settle();
    ASSERT_EQ(ranks.listener(1).causes().size(), 1u);
    EXPECT_EQ(ranks.listener(1).causes()[0].code, Code::protocol);
    EXPECT_EQ(ranks.listener(1).causes()[0].culprit, 0);
  }
}

// Data frames outside the message, or that begin within an element, are refused.
TEST(stream_width, a_part_that_was_not_asked_for_is_refused) {
  const Block out = pattern(100'000, 1);
  for (const auto& [at, bytes] : {std::pair<std::size_t, std::size_t>{0, 100'001}, {96'000, 8000}, {4, 8}}) {
    MemoryRanks ranks = several(2);
    Block in(out.size());
    Outcome& received = ranks.recv(1, 0, tag(1), in);
    const auto inject = [&](const Frame& frame) {
      const auto* const head = reinterpret_cast<const std::byte*>(&frame);
      MemoryNet::Stream& stream = ranks.net.stream(0, 1);
      stream.bytes.insert(stream.bytes.end(), head, head + sizeof(frame));
    };
    inject(Frame(FrameType::rts, tag(1), 0, out.size(), 7));
    ranks[1].progress();
    const MemoryNet::Stream& answer = ranks.net.stream(1, 0);
    ASSERT_GE(answer.unread(), sizeof(Frame));
    Frame cts;
    std::memcpy(static_cast<void*>(&cts), answer.bytes.data() + answer.head, sizeof(cts));
    ASSERT_EQ(cts.type, FrameType::cts);
    inject(Frame(FrameType::data, tag(1), at, bytes, cts.bytes));
    for (int i = 0; i < 2; ++i) ranks[1].progress();
    EXPECT_FALSE(received.ok());
    ASSERT_EQ(ranks.listener(1).causes().size(), 1u) << at;
    EXPECT_EQ(ranks.listener(1).causes()[0].code, Code::protocol);
  }
}

}  // namespace
}  // namespace tutti
