// Control messages to a handler, and the store of a communicator.
#include <gtest/gtest.h>

#include <atomic>
#include <thread>

#include "tests/support/caught.hpp"
#include "tests/support/comes_true.hpp"
#include "tests/support/refusal.hpp"
#include "tests/support/require.hpp"
#include "tests/support/worlds.hpp"
#include "tutti.hpp"

namespace tutti::testing {
namespace {

/// The messages that a handler received. Handlers run one at a time, so only the count, which others read, is atomic.
struct Heard {
  std::vector<std::pair<int, std::string>> messages;
  std::atomic<int> inside{0};
  std::atomic<std::size_t> count{0};

  auto handler() {
    return [this](int from, ConstBytes message) {
      if (++inside != 1) count = 1000;
      messages.emplace_back(from, std::string(reinterpret_cast<const char*>(message.data()), message.size()));
      --inside;
      ++count;
    };
  }
};

ConstBytes bytes_of(const std::string& text) { return std::as_bytes(std::span(text)); }

class Controls : public ::testing::TestWithParam<std::tuple<const char*, int>> {
 protected:
  void run(const std::function<void(Communicator&)>& body) const {
    const auto& [transport, size] = GetParam();
    const bool routed = std::string(transport) == "routed";
    run_ranks(
        size,
        [&](int rank) {
          Settings settings = test_settings(routed ? "shm,tcp" : transport);
          if (routed) settings.host_id = rank % 2 == 0 ? "even" : "odd";
          return settings;
        },
        body);
  }
};

TEST_P(Controls, ReachTheHandlerInTheirOrder) {
  run([](Communicator& world) {
    const int p = world.size();
    Communicator other = world.dup();
    Heard heard, elsewhere;
    const std::vector<std::string> texts{"", "a", std::string(1008, 'x')};
    if (world.rank() % 2 == 0) world.on_control(heard.handler());  // odd ranks set theirs later
    for (int to = 0; to < p; ++to) {
      for (const std::string& text : texts) world.control(to, bytes_of(text));
      other.control(to, bytes_of("other"));
    }
    world.barrier().wait();
    if (world.rank() % 2 == 1) world.on_control(heard.handler());
    other.on_control(elsewhere.handler());
    const auto all = static_cast<std::size_t>(p);
    require(comes_true([&] { return heard.count == 3 * all && elsewhere.count == all; }), "all messages come");
    std::vector<std::size_t> seen(all);
    for (const auto& [from, text] : heard.messages)
      require(text == texts.at(seen.at(static_cast<std::size_t>(from))++), "each rank's in their order");
    for (const auto& [from, text] : elsewhere.messages) require(text == "other", "each communicator has its own");
    world.on_control({});
    other.on_control({});
    world.barrier().wait();
  });
}

TEST_P(Controls, ReachAGroupThatIsStillBeingMade) {
  run([](Communicator& world) {
    for (int round = 0; round < 10; ++round) {
      Heard heard;
      Communicator group = world.dup();
      group.control((world.rank() + 1) % world.size(), bytes_of("early"));
      group.on_control(heard.handler());
      require(comes_true([&] { return heard.count == 1; }), "the message comes");
      group.on_control({});
    }
    world.barrier().wait();
  });
}

TEST_P(Controls, AreRefusedWhereTheyCannotGo) {
  run([](Communicator& world) {
    EXPECT_EQ(refusal([&] { world.control(0, bytes_of(std::string(1009, 'x'))); }),
              "control: the message has 1009 bytes, and at most 1008 go; send() more");
    EXPECT_NE(refusal([&] { world.control(world.size(), {}); }).find("is not a rank"), std::string::npos);
    Communicator group = world.dup();
    world.barrier().wait();
    group.abort("for the test");
    caught([&] {
      while (true) group.barrier().wait();
    });
    EXPECT_EQ(caught([&] { group.control(0, {}); }).code(), Code::aborted);
    world.barrier().wait();
  });
}

TEST_P(Controls, AndAStoreForWhatIsSmall) {
  run([](Communicator& world) {
    const int p = world.size(), me = world.rank();
    const std::shared_ptr<Store> mine = world.store(), others = world.dup().store();
    require(world.store() == mine, "one for each communicator");
    mine->set("address/" + std::to_string(me), "here " + std::to_string(me));
    for (int rank = 0; rank < p; ++rank)
      require(mine->wait("address/" + std::to_string(rank), deadline_in(Seconds(60))) == "here " + std::to_string(rank),
              "what the others have set");
    require(mine->add("count", 1) <= p, "a counter");
    world.barrier().wait();
    require(mine->add("count", 0) == p, "of all ranks");
    std::string value;
    require(!others->find("count", value), "another communicator has its own keys");
    world.barrier().wait();
  });
}

INSTANTIATE_TEST_SUITE_P(Everywhere, Controls,
                         ::testing::Combine(::testing::Values("inproc", "shm", "tcp", "routed"),
                                            ::testing::Values(1, 2, 5)),
                         [](const auto& one) {
                           return std::string(std::get<0>(one.param)) + "_" + std::to_string(std::get<1>(one.param));
                         });

}  // namespace
}  // namespace tutti::testing
