// Calls that a backend may end inside start(): the caller must not see a difference from other calls.
#include <gtest/gtest.h>

#include <future>
#include <optional>
#include <string>
#include <vector>

#include "tests/support/worlds.hpp"
#include "tutti/communicator.hpp"

namespace tutti {
namespace {

using testing::run_ranks;
using testing::test_settings;

Settings with(const std::string& backend) {
  Settings settings = test_settings("inproc");
  settings.module_path = TUTTI_TEST_MODULES;
  settings.backend = backend;
  return settings;
}

class EndedCall : public ::testing::TestWithParam<const char*> {};

TEST_P(EndedCall, IsFollowedByItsCallbacksAndCopied) {
  run_ranks(1, with(GetParam()), [](Communicator& world) {
    std::vector<float> data(4);
    std::promise<bool> told;
    const Work work = world.allreduce(data);
    Work copy = work, moved = std::move(copy);
    moved.then([&](const Status& status) { told.set_value(status.ok()); });
    work.wait();
    moved.wait();
    EXPECT_TRUE(work.done());
    EXPECT_TRUE(work.wait_for(Seconds(0)));
    EXPECT_TRUE(told.get_future().get());
  });
}

TEST_P(EndedCall, HasAHandleThatOutlivesTheCommunicator) {
  Work kept;
  run_ranks(1, with(GetParam()), [&](Communicator& world) {
    std::vector<float> data(4);
    kept = world.allreduce(data);
    kept.wait();
  });
  kept.wait();
  std::promise<bool> told;
  kept.then([&](const Status& status) { told.set_value(status.ok()); });
  EXPECT_TRUE(told.get_future().get());
}

TEST_P(EndedCall, IsOneOfMany) {
  run_ranks(1, with(GetParam()), [](Communicator& world) {
    std::vector<float> data(4);
    std::vector<Work> pending;
    for (int i = 0; i < 1000; ++i) pending.push_back(world.allreduce(data));
    for (const Work& one : pending) one.wait();
    EXPECT_EQ(world.allreduce(1.0f).wait(), 1.0f);
  });
}

INSTANTIATE_TEST_SUITE_P(Ends, EndedCall, ::testing::Values("instant", "instant/later"),
                         [](const auto& param) { return std::string(param.index == 0 ? "in_start" : "later"); });

class BrokenCall : public ::testing::TestWithParam<const char*> {};

// If start() throws or reports a failure, the call's wait() throws it, and so does wait() of every later call.
TEST_P(BrokenCall, EndsTheCommunicator) {
  run_ranks(1, with(GetParam()), [](Communicator& world) {
    std::vector<float> data(4);
    for (int call = 0; call < 3; ++call) {
      std::optional<Work> work;
      ASSERT_NO_THROW(work = world.allreduce(data));
      try {
        work->wait();
        ADD_FAILURE() << "call " << call << " ended well";
      } catch (const Error& error) {
        EXPECT_EQ(error.code(), Code::resource);
        EXPECT_NE(std::string(error.what()).find("on purpose"), std::string::npos) << error.what();
      }
    }
  });
}

// Backends count calls. If one is missing on a rank, the next one must not take its number.
TEST(BrokenStart, IsFollowedByNoOther) {
  run_ranks(1, with("instant/throws"), [](Communicator& world) {
    std::int64_t sum = 0, sent = 0;  // the backend writes the time of its start there
    Collective first, second;
    first.kind = Kind::allreduce;
    first.in = first.out = Buffer(reinterpret_cast<std::byte*>(&sum), 1, DType::i64);
    second.kind = Kind::broadcast;
    second.out = Buffer(reinterpret_cast<std::byte*>(&sent), 1, DType::i64);
    EXPECT_THROW(world.launch({{first, second}}).wait(), Error);
    EXPECT_NE(sum, 0);
    EXPECT_EQ(sent, 0);
  });
}

INSTANTIATE_TEST_SUITE_P(Start, BrokenCall, ::testing::Values("instant/throws", "instant/fails"),
                         [](const auto& param) { return std::string(param.index == 0 ? "throws" : "fails"); });

}  // namespace
}  // namespace tutti
