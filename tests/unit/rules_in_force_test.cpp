// A user's rules in a job: they are refused on every rank if they name an algorithm that a backend does not have, and
// are skipped with a warning if the backend cannot be used.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <mutex>
#include <string>
#include <vector>

#include "tests/support/worlds.hpp"
#include "tutti/communicator.hpp"
#include "tutti/log.hpp"

namespace tutti {
namespace {

using ::testing::HasSubstr;
using testing::run_ranks;
using testing::test_settings;

Settings with_rules(const std::string& select, const std::string& backend = "") {
  Settings settings = test_settings("inproc");
  settings.module_path = TUTTI_TEST_MODULES;
  settings.select = select;
  settings.backend = backend;
  return settings;
}

std::string refusal(const Settings& settings) {
  std::atomic<int> began = 0;
  std::string why;
  try {
    run_ranks(3, settings, [&](Communicator&) { ++began; });
  } catch (const std::exception& error) {
    why = error.what();
  }
  EXPECT_EQ(began, 0) << "every rank refuses";
  return why;
}

TEST(RulesInForce, AreRefusedWhereAModuleHasNoSuchAlgorithm) {
  EXPECT_THAT(refusal(with_rules("allreduce: ..=instant/nonsense")),
              HasSubstr("cannot read the selection rule '..=instant/nonsense': instant has no algorithm 'nonsense' for "
                        "allreduce, but later, fails, throws"));
  EXPECT_THAT(refusal(with_rules("*: ..=instant/nonsense")),
              HasSubstr("instant has no algorithm 'nonsense' for any collective, but later, fails, throws"));
  EXPECT_THAT(refusal(with_rules("", "instant/nonsense")),
              HasSubstr("instant has no algorithm 'nonsense' for any collective, but later, fails, throws"));
}

TEST(RulesInForce, AreRefusedByACall) {
  run_ranks(1, with_rules("allreduce: ..=instant/later"), [](Communicator& world) {
    std::vector<float> data(4);
    const auto why = [&](const std::string& algorithm) -> std::string {
      try {
        world.allreduce(data, sum, {.algorithm = algorithm}).wait();
      } catch (const Error& error) {
        return error.what();
      }
      return {};
    };
    EXPECT_EQ(why("instant/later"), "");
    EXPECT_EQ(why("instant/nonsense"), "instant has no algorithm 'nonsense' for allreduce, but later, fails, throws");
  });
}

TEST(RulesInForce, TellOnceThatABackendCannotBeUsed) {
  Settings settings = with_rules("allreduce: ..=instant");
  settings.net = "100gbit";  // with this setting no library's backend can be used
  std::mutex mutex;
  std::vector<std::string> warnings;
  set_log_handler([&](LogLevel level, std::string_view text) {
    const std::lock_guard lock(mutex);
    if (level == LogLevel::warn) warnings.emplace_back(text);
  });
  run_ranks(2, settings, [](Communicator& world) {
    Communicator more = world.dup();
    EXPECT_EQ(world.allreduce(1, sum).wait(), 2);
    EXPECT_EQ(more.allreduce(1, sum).wait(), 2);
  });
  set_log_handler({});
  ASSERT_EQ(warnings.size(), 1u);
  EXPECT_THAT(warnings[0], HasSubstr("rules that name instant are passed over: the backend 'instant' cannot be used "
                                     "with the setting net"));
}

}  // namespace
}  // namespace tutti
