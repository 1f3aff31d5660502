// The transport decorators, over byte streams in memory.
#include "tests/support/memory_ranks.hpp"
#include "transports/decorators/decorator.hpp"
#include "transports/decorators/faulty.hpp"
#include "transports/decorators/routed.hpp"
#include "transports/decorators/traced.hpp"

namespace tutti {
namespace {

using testing::MemoryNet;
using testing::MemoryRanks;
using testing::Outcome;
using testing::pattern;
using Block = std::vector<std::byte>;

Tag tag(std::uint32_t sequence) { return {1, sequence, 0}; }

TEST(traced, tells_when_each_operation_starts_and_ends) {
  MemoryRanks ranks(2, MemoryNet::unlimited);
  std::vector<TraceEvent> events;
  ranks.transports[0] =
      make_traced(std::move(ranks.transports[0]), [&](const TraceEvent& event) { events.push_back(event); });
  const Block out = pattern(100'000, 1);
  Block in(8), wrong(9);
  ranks.send(0, 1, tag(1), out);
  ranks.recv(0, 1, tag(2), in);
  ranks[0].control(1, std::as_bytes(std::span("hi")));
  ranks.settle();
  ASSERT_EQ(events.size(), 3u) << "nothing has ended yet";
  Block big(100'000);
  ranks.recv(1, 0, tag(1), big);
  ranks.send(1, 0, tag(2), wrong);
  ranks.settle();
  ASSERT_EQ(events.size(), 5u);
  std::size_t sent = 0;
  for (const TraceEvent& event : events) {
    EXPECT_EQ(event.peer, 1);
    if (event.ended && event.verb == TraceEvent::Verb::send) sent += event.bytes;
    EXPECT_EQ(event.failed, event.ended && event.verb == TraceEvent::Verb::recv) << "the recv had another size";
  }
  EXPECT_EQ(sent, 100'000u);
}

TEST(faulty, keeps_what_the_contract_promises_and_reorders_the_rest) {
  MemoryRanks ranks(2, 5000);
  for (int i : {0, 1})
    ranks.transports[static_cast<std::size_t>(i)] =
        make_faulty(std::move(ranks.transports[static_cast<std::size_t>(i)]), ranks.listener(i),
                    {7u + static_cast<unsigned>(i), 8, 30, -1, 0});
  std::vector<Block> out, in;
  for (std::uint32_t i = 0; i < 200; ++i) out.push_back(pattern(i * 100, i)), in.emplace_back(i * 100);
  std::vector<std::uint32_t> order;
  for (std::uint32_t i = 0; i < 200; ++i) {
    ranks.send(0, 1, tag(i % 5), out[i]);
    ranks[1].recv(0, tag(i % 5), 0, in[i], [&order, i](const Status&) { order.push_back(i); });
  }
  for (int i = 0; i < 5000; ++i) ranks[i % 2].progress();
  EXPECT_EQ(in, out);
  EXPECT_EQ(order.size(), 200u);
  EXPECT_FALSE(std::is_sorted(order.begin(), order.end())) << "nothing was reordered";
}

TEST(faulty, loses_a_peer_on_purpose) {
  MemoryRanks ranks(3, MemoryNet::unlimited);
  ranks.transports[0] = make_faulty(std::move(ranks.transports[0]), ranks.listener(0), {1, 0, 0, 2, 3});
  const Block out = pattern(10, 1);
  for (std::uint32_t i = 0; i < 3; ++i) ranks.send(0, 2, tag(i), out);
  ranks.settle();
  EXPECT_TRUE(ranks.listener(0).causes().empty());
  Outcome& fourth = ranks.send(0, 2, tag(3), out);
  Outcome& other = ranks.send(0, 1, tag(3), out);
  for (int i = 0; i < 100; ++i) ranks[0].progress();
  EXPECT_EQ(fourth.status.code(), Code::peer_lost);
  EXPECT_TRUE(other.ok());
  ASSERT_EQ(ranks.listener(0).causes().size(), 1u);
  EXPECT_EQ(ranks.listener(0).causes()[0].culprit, 2);
}

TEST(routed, sends_each_rank_its_way_and_checks_the_routes) {
  MemoryRanks near(3, MemoryNet::unlimited), far(3, MemoryNet::unlimited);
  std::vector<std::unique_ptr<Transport>> both;
  both.push_back(std::move(near.transports[0]));
  both.push_back(std::move(far.transports[0]));
  const auto routed = make_routed(0, 3, std::move(both), {0, 0, 1});
  const Block out = pattern(100, 1);
  Outcome to_near, to_far;
  routed->send(1, tag(1), 0, out, MemoryRanks::note(to_near));
  routed->send(2, tag(1), 0, out, MemoryRanks::note(to_far));
  for (int i = 0; i < 3; ++i) routed->progress();
  EXPECT_TRUE(to_near.ok() && to_far.ok());
  EXPECT_GT(near.net.stream(0, 1).total, 100u);
  EXPECT_EQ(near.net.stream(0, 2).total, 0u);
  EXPECT_GT(far.net.stream(0, 2).total, 100u);
  EXPECT_EQ(far.net.stream(0, 1).total, 0u);
  EXPECT_THROW(make_routed(0, 3, {}, {0, 0, 0}), Error);
  EXPECT_THROW(make_routed(0, 3, {}, {}), Error);
}

TEST(routed, asks_its_transports_in_turns_who_has_sent) {
  MemoryRanks near(3, MemoryNet::unlimited), far(3, MemoryNet::unlimited);
  const Block out = pattern(10, 1);
  for (int i = 0; i < 4; ++i) {
    near.send(1, 0, tag(1), out);
    far.send(2, 0, tag(1), out);
  }
  near.settle();
  far.settle();
  std::vector<std::unique_ptr<Transport>> both;
  both.push_back(std::move(near.transports[0]));
  both.push_back(std::move(far.transports[0]));
  const auto routed = make_routed(0, 3, std::move(both), {0, 0, 1});
  std::vector<int> whose;
  Outcome taken;
  Block in(10);
  while (const auto found = routed->arrived(any_rank, tag(1))) {
    whose.push_back(found->from);
    routed->recv(found->from, tag(1), 0, in, MemoryRanks::note(taken));
    routed->progress();
  }
  EXPECT_EQ(taken.runs, 8);
  EXPECT_EQ(whose, (std::vector{1, 2, 1, 2, 1, 2, 1, 2}));
}

// Counts the memory that is adopted (prepared for transfers) at present.
class Readying final : public Decorator {
 public:
  Readying(std::unique_ptr<Transport> inner, int& count) : Decorator(std::move(inner)), count_(count) {}
  std::shared_ptr<void> adopt(std::shared_ptr<void> memory, std::size_t) override {
    void* const same = memory.get();
    ++count_;
    return {same, [this, memory = std::move(memory)](void*) { --count_; }};
  }

 private:
  int& count_;
};

TEST(routed, readies_the_callers_memory_for_all_of_its_transports) {
  MemoryRanks near(2, MemoryNet::unlimited), far(2, MemoryNet::unlimited);
  int ready = 0;
  std::vector<std::unique_ptr<Transport>> both;
  both.push_back(std::make_unique<Readying>(std::move(near.transports[0]), ready));
  both.push_back(std::make_unique<Readying>(std::move(far.transports[0]), ready));
  const auto routed = make_routed(0, 2, std::move(both), {0, 1});
  int data = 0;
  auto registered = routed->adopt({&data, [](void*) {}}, sizeof data);
  EXPECT_EQ(registered.get(), &data);
  EXPECT_EQ(ready, 2);
  registered.reset();
  EXPECT_EQ(ready, 0);
}

}  // namespace
}  // namespace tutti
