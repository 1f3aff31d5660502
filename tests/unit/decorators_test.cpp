// The transport decorators, over byte streams in memory.
#include "tests/support/memory_ranks.hpp"
#include "tests/support/recorded_messages.hpp"
#include "transports/decorators/decorator.hpp"
#include "transports/decorators/recorded.hpp"
#include "transports/decorators/routed.hpp"

namespace tutti {
namespace {

using testing::MemoryNet;
using testing::MemoryRanks;
using testing::Outcome;
using testing::pattern;
using Block = std::vector<std::byte>;

Tag tag(std::uint32_t sequence) { return {1, sequence, 0}; }

TEST(recorded, keeps_each_message_with_its_start_and_end) {
  using What = Record::What;
  using State = Record::State;
  MemoryRanks ranks(2, MemoryNet::unlimited);
  const auto recorder = testing::make_recorder();
  ranks.transports[0] = make_recorded(std::move(ranks.transports[0]), *recorder);
  const Block out = pattern(100'000, 1);
  Block in(8), wrong(9), other(4);
  ranks.send(0, 1, tag(1), out);
  ranks.recv(0, 1, tag(2), in);
  ranks[0].control(1, std::as_bytes(std::span("hi")));
  ranks[0].recv(1, tag(3), 0, other, [](const Status&) { FAIL() << "it was retracted"; });
  EXPECT_TRUE(ranks[0].retract(1, tag(3), other.data()));
  ranks.settle();
  auto messages = testing::messages_of(*recorder);
  ASSERT_EQ(messages.size(), 4u);
  EXPECT_EQ(messages[0].what, What::sent);
  EXPECT_EQ(messages[0].state, State::running);
  EXPECT_EQ(messages[1].what, What::received);
  EXPECT_EQ(messages[1].state, State::running);
  EXPECT_EQ(messages[2].what, What::control);
  EXPECT_EQ(messages[2].bytes, 3u);
  EXPECT_EQ(messages[3].state, State::failed) << "retracted";
  Block big(100'000);
  ranks.recv(1, 0, tag(1), big);
  ranks.send(1, 0, tag(2), wrong);
  ranks.settle();
  messages = testing::messages_of(*recorder);
  EXPECT_EQ(messages[0].state, State::done);
  EXPECT_EQ(messages[0].bytes, 100'000u);
  EXPECT_EQ(messages[0].sequence, 1u);
  EXPECT_EQ(messages[0].peer, 1);
  EXPECT_EQ(messages[1].state, State::failed) << "the message had another size";
  ranks.transports[0].reset();
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
