// A fixture that tests what tutti/provider/transport.hpp promises, for every provider and several numbers of ranks.
#pragma once

#include <gtest/gtest.h>

#include <functional>
#include <string>

#include "tests/support/meetings.hpp"

namespace tutti::testing {

inline constexpr int conformance_sizes[] = {1, 2, 3, 4, 5, 8};

class EveryWay : public ::testing::TestWithParam<Way> {
 protected:
  void SetUp() override {
    settings_.job = "conformance";
    settings_.secret = "a secret";
    settings_.set("tcp_connections", std::to_string(GetParam().tcp_connections), "test");
    if (const std::string reason = not_viable(GetParam(), settings_); !reason.empty()) GTEST_SKIP() << reason;
  }

  void run(int size, const std::function<void(Rank&)>& body) {
    SCOPED_TRACE(GetParam().name() + ", " + std::to_string(size) + " ranks");
    if (process_world().there()) return run_here(size, body);
    const auto store = make_local_store();
    run_ranks(
        size, [&](Rank& rank) { return connect(GetParam(), rank, store, settings_); }, body);
  }
  // If ranks are processes, their number is fixed, and this process is one of them. Other sizes are skipped.
  void run_here(int size, const std::function<void(Rank&)>& body) {
    auto& world = process_world();
    if (size != world.self.size) return;
    const auto store = world.next_store();
    Gathering all(size, store);
    run_rank(
        world.self.rank, all, [&](Rank& rank) { return connect(GetParam(), rank, store, settings_); }, body);
  }
  void run_all(const std::function<void(Rank&)>& body) {
    for (const int size : conformance_sizes)
      if (!GetParam().chaos || size == 2 || size == 5) run(size, body);  // faults take time
  }
  Settings settings_;
};

}  // namespace tutti::testing
