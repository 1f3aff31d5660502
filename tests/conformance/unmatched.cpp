// TransportConformance, continued: messages without a matching recv are reported, and recvs without a matching message
// are cancelled.
#include "tests/support/every_way.hpp"

namespace tutti {
namespace {

using testing::Outcome;
using testing::pattern;
using testing::Rank;
using testing::same;
using Block = std::vector<std::byte>;

Tag tag(std::uint32_t sequence, std::uint64_t group = 1) { return {group, sequence, 0}; }

class UnmatchedMessages : public testing::EveryWay {};

TEST_P(UnmatchedMessages, are_told_of_the_oldest_first) {
  run_all([](Rank& me) {
    for (const std::size_t bytes : {std::size_t{0}, std::size_t{100}, std::size_t{300'000}}) {
      const auto number = static_cast<std::uint32_t>(bytes);
      const Block out = pattern(bytes, static_cast<std::size_t>(me.rank())), more = pattern(bytes + 1, 7);
      Outcome &sent = me.send(0, tag(number), out, 42), &second = me.send(0, tag(number), more, 43);
      if (me.rank() == 0) {
        std::vector<int> seen(static_cast<std::size_t>(me.size()));
        for (int i = 0; i < 2 * me.size(); ++i) {
          std::optional<Unmatched> found;
          me.until([&] { return (found = me.transport->arrived(any_rank, tag(number))).has_value(); }, "a message");
          const int nth = seen[static_cast<std::size_t>(found->from)]++;
          EXPECT_EQ(found->bytes, bytes + static_cast<std::size_t>(nth)) << "each rank's in their order";
          EXPECT_EQ(found->call, 42u + static_cast<unsigned>(nth));
          const auto again = me.transport->arrived(found->from, tag(number));
          EXPECT_TRUE(again && again->from == found->from && again->bytes == found->bytes) << "nothing was taken";
          EXPECT_FALSE(me.transport->arrived(any_rank, tag(number, 2)) || me.transport->arrived(any_rank, tag(9)));
          Block in(found->bytes);
          me.finish(me.recv(found->from, tag(number), in, found->call), "the message that was told of");
          EXPECT_TRUE(same(in, nth == 0 ? pattern(bytes, static_cast<std::size_t>(found->from)) : more));
        }
        for (const int count : seen) EXPECT_EQ(count, 2);
        EXPECT_FALSE(me.transport->arrived(any_rank, tag(number)));
      }
      me.finish(sent, "the sends");
      me.finish(second, "the sends");
    }
    me.meet("the end");
  });
}

TEST_P(UnmatchedMessages, of_a_cancelled_group_are_gone) {
  run(2, [](Rank& me) {
    const Block out = pattern(100, 1), large = pattern(300'000, 2);
    for (const Block* one : {&out, &large}) me.send(me.next(), tag(1, 5), *one);
    me.until([&] { return me.transport->arrived(me.prev(), tag(1, 5)).has_value(); }, "a message");
    me.meet("the messages");
    me.transport->cancel(5, Status::failure(Code::aborted, "enough"));
    me.meet("the end of the group");
    EXPECT_FALSE(me.transport->arrived(any_rank, tag(1, 5)));
    me.meet("the end");
  });
}

TEST_P(UnmatchedMessages, find_no_recv_that_was_taken_back) {
  run_all([](Rank& me) {
    for (const std::size_t bytes : {std::size_t{100}, std::size_t{300'000}}) {
      const auto number = static_cast<std::uint32_t>(bytes);
      Block never(bytes), first(bytes), second(bytes);
      int told = 0;
      const auto done = [&told](const Status&) { ++told; };
      me.transport->recv(me.prev(), tag(number), 0, never, done);
      me.recv(me.prev(), tag(number), first);
      me.transport->recv(me.prev(), tag(number, 2), 0, never, done);
      EXPECT_FALSE(me.transport->retract(me.prev(), tag(number), second.data())) << "no such memory";
      EXPECT_FALSE(me.transport->retract(me.prev(), tag(number, 3), never.data())) << "no such tag";
      EXPECT_TRUE(me.transport->retract(me.prev(), tag(number), never.data()));
      EXPECT_TRUE(me.transport->retract(me.prev(), tag(number, 2), never.data()));
      EXPECT_FALSE(me.transport->retract(me.prev(), tag(number), never.data())) << "it is not there any more";
      me.meet("the start");
      const Block out = pattern(bytes, static_cast<std::size_t>(me.rank())), more = pattern(bytes, 99);
      Outcome &sent = me.send(me.next(), tag(number), out), &last = me.send(me.next(), tag(number), more);
      Outcome& received = me.recv(me.prev(), tag(number), second);
      me.finish_all("the messages");
      EXPECT_TRUE(sent.ok() && last.ok() && received.ok());
      EXPECT_TRUE(same(first, pattern(bytes, static_cast<std::size_t>(me.prev()))) && same(second, more));
      EXPECT_FALSE(me.transport->retract(me.prev(), tag(number), first.data())) << "it has its message";
      EXPECT_TRUE(same(never, Block(bytes)));
      EXPECT_EQ(told, 0);
      me.meet("the end");
    }
  });
}

INSTANTIATE_TEST_SUITE_P(Ways, UnmatchedMessages, ::testing::ValuesIn(testing::all_ways()),
                         [](const auto& one) { return one.param.name(); });

}  // namespace
}  // namespace tutti
