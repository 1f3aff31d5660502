// Shaped (rate-limited) links: their text, their arithmetic, and a transport behind them, with a clock that tests set.
#include <poll.h>

#include <chrono>
#include <memory>

#include "tests/support/memory_ranks.hpp"
#include "tests/support/recorded_messages.hpp"
#include "transports/core/link_shape.hpp"
#include "transports/decorators/paced_link.hpp"
#include "transports/decorators/recorded.hpp"
#include "transports/decorators/shaped.hpp"

namespace tutti {
namespace {

using namespace std::chrono_literals;
using testing::MemoryNet;
using testing::MemoryRanks;
using testing::Outcome;
using testing::pattern;
using Block = std::vector<std::byte>;

std::string refusal(std::string_view text) {
  try {
    parse_link_shape(text);
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), Code::invalid);
    return error.what();
  }
  return "";
}

TEST(link_shape, reads_what_tc_writes_in_any_order) {
  EXPECT_EQ(parse_link_shape("50mbit,20ms"), (LinkShape{50e6, 20ms}));
  EXPECT_EQ(parse_link_shape("20ms,50mbit"), (LinkShape{50e6, 20ms}));
  EXPECT_EQ(parse_link_shape("1.5gbit"), (LinkShape{1.5e9, 0ns}));
  EXPECT_EQ(parse_link_shape("300kbit,1.5us"), (LinkShape{300e3, 1500ns}));
  EXPECT_EQ(parse_link_shape("2s"), (LinkShape{0, 2s}));
  EXPECT_EQ(parse_link_shape("800bit,0ms"), (LinkShape{800, 0ns}));
  for (const char* text : {"50mbit,20ms", "1.5gbit", "250us", "800bit", "1tbit,2s", "300kbit,700ns"})
    EXPECT_EQ(to_string(parse_link_shape(text)), text);
  EXPECT_EQ(to_string(parse_link_shape("20000us,0.05gbit")), "50mbit,20ms");
  EXPECT_EQ(parse_link_shape(to_string(LinkShape())), LinkShape());
}

TEST(link_shape, says_what_is_wrong_and_how_to_write_it) {
  EXPECT_NE(refusal("fast").find("'fast' does not begin with a number"), std::string::npos);
  EXPECT_NE(refusal("50").find("'50' has no unit"), std::string::npos);
  EXPECT_NE(refusal("50mbps").find("'mbps' is not a unit"), std::string::npos);
  EXPECT_NE(refusal("50mbit,1gbit").find("two rates"), std::string::npos);
  EXPECT_NE(refusal("1ms,2ms").find("two latencies"), std::string::npos);
  EXPECT_NE(refusal("0mbit").find("the rate is 0"), std::string::npos);
  EXPECT_NE(refusal("2e6s").find("longer than an hour"), std::string::npos);
  for (const char* wrong : {"", ",", "50mbit,", "-1mbit", "1 mbit", "nanms", "infmbit", "1MBIT"})
    EXPECT_NE(refusal(wrong).find("as in 50mbit,20ms"), std::string::npos) << wrong;
}

using Left = std::vector<std::pair<std::uint64_t, LinkTime>>;
Left left(OutgoingLink& link, LinkTime now) {
  Left found;
  for (const auto& one : link.pop(now)) found.emplace_back(one.id, one.when);
  return found;
}

TEST(paced_link, lets_messages_to_one_peer_leave_one_after_the_other) {
  OutgoingLink link(8e6);  // 1 byte takes 1 us
  EXPECT_EQ(link.next(), std::nullopt);
  link.push(1, 10, 1000, 5ms);
  link.push(1, 11, 500, 5ms);
  EXPECT_EQ(link.next(), 6ms);
  EXPECT_EQ(left(link, 6ms - 1ns), (Left{}));
  EXPECT_EQ(left(link, 10ms), (Left{{10, 6ms}, {11, 6500us}})) << "late news does not change when they left";
  link.push(1, 12, 0, 20ms);
  link.push(1, 13, 250, 20ms);
  EXPECT_EQ(left(link, 20ms), (Left{{12, 20ms}})) << "an idle link has saved nothing up, and no bytes take no time";
  EXPECT_EQ(link.next(), 20250us);
}

TEST(paced_link, shares_the_rate_equally_among_peers) {
  OutgoingLink link(8e6);
  link.push(1, 10, 1000, 0ms);
  link.push(2, 20, 1000, 0ms);
  link.push(3, 30, 200, 0ms);
  // Until 0.6 ms three messages have a third of the rate each; then two with 800 bytes each have a half, until 2.2 ms.
  EXPECT_EQ(left(link, 600us), (Left{{30, 600us}}));
  link.push(3, 31, 100, 1ms);  // messages 10 and 20 have 600 bytes left
  EXPECT_EQ(left(link, 10ms), (Left{{31, 1300us}, {10, 2300us}, {20, 2300us}}));
}

TEST(paced_link, gives_the_share_of_what_is_taken_back_to_the_others) {
  OutgoingLink link(8e6);
  link.push(1, 10, 1000, 0ms);
  link.push(2, 20, 1000, 0ms);
  link.erase([](std::uint64_t id) { return id == 20; }, 1ms);
  EXPECT_EQ(left(link, 10ms), (Left{{10, 1500us}}));
  EXPECT_EQ(link.next(), std::nullopt);
}

TEST(paced_link, without_a_rate_lets_everything_leave_at_once) {
  OutgoingLink link(0);
  link.push(1, 10, 1 << 30, 3ms);
  EXPECT_EQ(left(link, 3ms), (Left{{10, 3ms}}));
  EXPECT_EQ(IncomingLink(0).take(1 << 30, 3ms), 3ms);
}

TEST(paced_link, takes_in_from_all_peers_together_at_the_rate) {
  IncomingLink link(8e6);
  EXPECT_EQ(link.take(1000, 10ms), 10ms) << "its bits came before, at the rate";
  EXPECT_EQ(link.take(1000, 10ms), 11ms);
  EXPECT_EQ(link.take(1000, 10ms), 12ms);
  EXPECT_EQ(link.take(500, 15ms), 15ms);
}

/// Ranks behind links of 1 byte per microsecond and a latency of 100 us. The clock moves only when at() sets it.
class ShapedRanks {
 public:
  explicit ShapedRanks(int size) : ranks(size, MemoryNet::unlimited) {
    for (auto& one : ranks.transports) one = make_shaped(std::move(one), {8e6, 100us}, [this] { return now; });
  }
  void at(LinkTime time) {
    now = time;
    ranks.settle();
  }
  LinkTime now{0};
  MemoryRanks ranks;
};

TEST(shaped, delivers_after_the_time_that_the_link_takes) {
  ShapedRanks shaped(2);
  MemoryRanks& ranks = shaped.ranks;
  const Block out = pattern(1000, 1), next = pattern(300, 2);
  Block in(1000), then(300);
  Outcome& sent = ranks.send(0, 1, {1, 1, 0}, out);
  Outcome& got = ranks.recv(1, 0, {1, 1, 0}, in);
  Outcome& later = ranks.send(0, 1, {1, 2, 0}, next);
  Outcome& got_later = ranks.recv(1, 0, {1, 2, 0}, then);
  shaped.at(1100us - 1ns);
  EXPECT_FALSE(sent.done() || got.done());
  EXPECT_EQ(ranks.net.stream(0, 1).total, 0u) << "nothing has reached the wire";
  shaped.at(1100us);
  EXPECT_TRUE(sent.ok() && got.ok());
  EXPECT_EQ(in, out);
  shaped.at(1400us - 1ns);
  EXPECT_FALSE(later.done() || got_later.done());
  shaped.at(1400us);
  EXPECT_TRUE(later.ok() && got_later.ok());
  EXPECT_EQ(then, next);
}

TEST(shaped, has_one_link_in_each_direction) {
  ShapedRanks shaped(3);
  MemoryRanks& ranks = shaped.ranks;
  const Block out = pattern(1000, 1);
  std::vector<Block> in(4, Block(1000));
  Outcome& first = (ranks.send(1, 0, {1, 1, 0}, out), ranks.recv(0, 1, {1, 1, 0}, in[0]));
  Outcome& second = (ranks.send(2, 0, {1, 1, 0}, out), ranks.recv(0, 2, {1, 1, 0}, in[1]));
  Outcome& back = (ranks.send(0, 1, {1, 1, 0}, out), ranks.recv(1, 0, {1, 1, 0}, in[2]));
  shaped.at(1100us);
  EXPECT_TRUE(back.ok()) << "sending does not wait for receiving";
  EXPECT_NE(first.done(), second.done()) << "the two come in one after the other";
  shaped.at(2100us - 1ns);
  EXPECT_NE(first.done(), second.done());
  shaped.at(2100us);
  EXPECT_TRUE(first.ok() && second.ok());
}

TEST(shaped, lets_control_and_failures_pass_by) {
  ShapedRanks shaped(2);
  MemoryRanks& ranks = shaped.ranks;
  const Block bulk = pattern(100'000'000, 1);
  ranks.send(0, 1, {1, 1, 0}, bulk);
  ranks[0].control(1, std::as_bytes(std::span("letter")));
  Cause why;
  why.code = Code::aborted;
  why.culprit = why.reporter = 0;
  ranks[0].spread(why);
  shaped.at(0ns);
  EXPECT_EQ(ranks.listener(1).controls().size(), 1u);
  EXPECT_EQ(ranks.listener(1).causes().size(), 1u);
}

TEST(shaped, ends_what_it_holds_back_when_its_group_is_cancelled) {
  ShapedRanks shaped(2);
  MemoryRanks& ranks = shaped.ranks;
  const Block out = pattern(1000, 1), small = pattern(100, 2);
  Block in(1000), other(100);
  Outcome& sent = ranks.send(0, 1, {1, 1, 0}, out);
  Outcome& kept = ranks.send(0, 1, {2, 1, 0}, small);
  Outcome& got = ranks.recv(1, 0, {2, 1, 0}, other);
  Outcome& waiting = ranks.recv(1, 0, {1, 1, 0}, in);
  Cause why;
  why.code = Code::aborted;
  shaped.now = 400us;
  for (const int rank : {0, 1}) ranks[rank].cancel(1, Status(why));
  EXPECT_EQ(sent.status.code(), Code::aborted);
  EXPECT_EQ(waiting.status.code(), Code::aborted);
  shaped.at(600us);  // free from 400 us on: 100 us for the bytes, then 100 us of latency
  EXPECT_TRUE(kept.ok() && got.ok());
  EXPECT_EQ(other, small);
}

TEST(shaped, sleeps_until_something_is_due) {
  MemoryRanks ranks(2, MemoryNet::unlimited);
  for (auto& one : ranks.transports) one = make_shaped(std::move(one), {0, 20ms});
  const Block out = pattern(10, 1);
  Block in(10);
  Outcome& sent = ranks.send(0, 1, {1, 1, 0}, out);
  Outcome& got = ranks.recv(1, 0, {1, 1, 0}, in);
  int turns = 0;
  for (; !sent.done() && turns < 1000; ++turns) {
    ranks[0].progress();
    if (sent.done() || !ranks[0].arm(true)) continue;
    pollfd bell{ranks[0].fds().sleep, POLLIN, 0};
    ASSERT_EQ(::poll(&bell, 1, 10'000), 1) << "nothing rang";
    ranks[0].arm(false);
  }
  EXPECT_TRUE(sent.ok());
  EXPECT_LE(turns, 5);
  ranks.settle();
  EXPECT_TRUE(got.ok());
  EXPECT_TRUE(ranks[0].arm(true));
  pollfd bell{ranks[0].fds().sleep, POLLIN, 0};
  EXPECT_EQ(::poll(&bell, 1, 0), 0) << "nothing is due any more";
}

TEST(shaped, moves_the_same_messages_as_the_transport_behind_it) {
  std::vector<std::size_t> bytes[2];
  for (const bool with_link : {false, true}) {
    MemoryRanks ranks(2, MemoryNet::unlimited);
    LinkTime now{0};
    auto& sender = ranks.transports[0];
    const auto recorder = testing::make_recorder();
    sender = make_recorded(std::move(sender), *recorder);
    if (with_link) sender = make_shaped(std::move(sender), {8e6, 100us}, [&now] { return now; });
    std::vector<Block> out, in;
    for (std::size_t i = 0; i < 20; ++i) out.push_back(pattern(i * 1000, i)), in.emplace_back(i * 1000);
    for (std::uint32_t i = 0; i < 20; ++i) {
      ranks.send(0, 1, {1, i, 0}, out[i]);
      ranks.recv(1, 0, {1, i, 0}, in[i]);
    }
    now = 1s;
    ranks.expect_all_ok();
    EXPECT_EQ(in, out);
    for (const doctor::RecordedCall& message : testing::messages_of(*recorder))
      bytes[with_link].push_back(message.bytes);
    sender.reset();
  }
  EXPECT_EQ(bytes[0].size(), 20u);
  EXPECT_EQ(bytes[0], bytes[1]);
}

}  // namespace
}  // namespace tutti
