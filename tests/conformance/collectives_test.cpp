// CommunicatorConformance: every collective, dtype and operator, over every transport, compared with a sequential
// reference; results must be bitwise equal on all ranks.
#include <gtest/gtest.h>

#include <atomic>
#include <cstdio>
#include <tuple>

#include "tests/support/cases.hpp"
#include "tests/support/worlds.hpp"
#include "tutti.hpp"
#include "tutti/provider/provider.hpp"

namespace tutti::testing {
namespace {

class CommunicatorConformance : public ::testing::TestWithParam<std::tuple<const char*, int>> {
 protected:
  // The host of each rank, for parameters that stand for several hosts (shm inside, tcp between them); else empty.
  std::vector<int> hosts() const {
    const std::string name = std::get<0>(GetParam());
    std::vector<int> host;
    for (int rank = 0; rank < size(); ++rank) {
      if (name == "routed") host.push_back(rank % 2);
      if (name == "three_hosts") host.push_back(rank % 3);
      if (name == "racks") host.push_back(rank % 5);
      if (name == "lopsided") host.push_back(rank == size() - 1 ? 1 : 0);
    }
    return host;
  }
  // A parameter that names neither hosts nor a transport names a backend, which is tested beside our plans over inproc.
  Settings settings_of(int rank) const {
    const std::string name = std::get<0>(GetParam());
    const std::vector<int> host = hosts();
    Settings settings = test_settings(!host.empty() ? "shm,tcp" : is_backend() ? "inproc" : name);
    if (!host.empty()) settings.host_id = "host " + std::to_string(host[static_cast<std::size_t>(rank)]);
    if (name == "racks") settings.rack = host[static_cast<std::size_t>(rank)] % 2 == 0 ? "even" : "odd";
    if (is_backend()) settings.backend = name;
    settings.lane_bytes = 16 << 10;  // small, so that calls of the tests' sizes are cut into lanes
    return settings;
  }
  void SetUp() override {
    const std::vector<std::string> needed =
        hosts().empty() ? std::vector<std::string>{std::get<0>(GetParam())} : std::vector<std::string>{"shm", "tcp"};
    for (const std::string& one : needed)
      if (const Found found = find_provider(one, test_settings("inproc")); !found.reason.empty())
        GTEST_SKIP() << one << ": " << found.reason;
  }
  bool is_backend() const {
    const std::string name = std::get<0>(GetParam());
    return hosts().empty() && std::ranges::none_of(providers(), [&](const Provider* one) { return one->name == name; });
  }
  // The targets that a call may name here: our algorithms that fit, or the algorithms of the backend.
  std::vector<std::string> targets(Kind kind) const {
    std::vector<std::string> names;
    if (is_backend()) {
      const std::string backend = std::get<0>(GetParam());
      const auto own = find_provider(backend, test_settings("inproc")).provider->algorithms(kind);
      for (const std::string_view one : own) names.push_back(backend + (one.empty() ? "" : "/") + std::string(one));
      return names;
    }
    names = planned_targets(kind, size(), hosts());
    if (std::string(std::get<0>(GetParam())) == "shm" && size() > 1)
      for (const std::string_view engine : find_provider("shm", test_settings("shm")).provider->algorithms(kind))
        names.push_back("shm" + (engine.empty() ? "" : "/" + std::string(engine)));
    return names;
  }
  static void SetUpTestSuite() {
    std::printf("counts, roots and places are drawn from seed %llu (TUTTI_TEST_SEED)\n",
                static_cast<unsigned long long>(case_seed()));
  }
  int size() const { return std::get<1>(GetParam()); }
};

TEST_P(CommunicatorConformance, EveryKindDtypeAndOperator) {
  const auto all = cases(size(), case_seed());
  std::vector<std::vector<std::uint64_t>> sums(static_cast<std::size_t>(size()));
  run_ranks(
      size(), [&](int rank) { return settings_of(rank); },
      [&](Communicator& world) { play(world, all, sums[static_cast<std::size_t>(world.rank())]); });
  for (std::size_t i = 0; i < all.size(); ++i)
    for (const auto& mine : sums) ASSERT_EQ(mine[i], sums[0][i]) << "ranks differ: " << all[i].text();
}

// Also plays algorithms that the selector would not choose here, and further layouts of hosts.
class AlgorithmConformance : public CommunicatorConformance {};

TEST_P(AlgorithmConformance, EveryAlgorithm) {
  std::atomic<int> played = 0, arrived = 0;
  run_ranks(
      size(), [&](int rank) { return settings_of(rank); },
      [&](Communicator& world) {
        int expected = 0;
        for (const std::string& target : targets(Kind::barrier)) {
          ++arrived;
          world.barrier({.algorithm = target}).wait();
          if (arrived < (expected += world.size())) throw std::runtime_error(target + ": a barrier lets go too early");
        }
        played += play_targets(world, [&](Kind kind) { return targets(kind); });
      });
  EXPECT_GT(played, 0);
}

TEST_P(CommunicatorConformance, ScalarsPointToPointAndGroups) {
  run_ranks(
      size(), [&](int rank) { return settings_of(rank); }, play_the_rest);
}

TEST_P(CommunicatorConformance, SameBitsInEveryRun) {
  std::vector<std::uint64_t> sums;
  for (int run = 0; run < 2; ++run) {
    std::uint64_t sum = 0;
    run_ranks(
        size(), [&](int rank) { return settings_of(rank); },
        [&](Communicator& world) {
          for (const std::size_t count : {3u, 1000u, 70001u}) {
            auto data = random_data(DType::f32, count, static_cast<std::uint64_t>(world.rank()) + count);
            world.allreduce(Buffer(data.data(), count, DType::f32), avg).wait();
            if (world.rank() == 0) sum = checksum(data.data(), data.size(), sum);
          }
        });
    sums.push_back(sum);
  }
  EXPECT_EQ(sums[0], sums[1]);
}

const std::vector<int> sizes = thinned ? std::vector{1, 2, 3, 4, 5} : std::vector{1, 2, 3, 4, 5, 8};

std::string test_name(const ::testing::TestParamInfo<std::tuple<const char*, int>>& param) {
  return std::string(std::get<0>(param.param)) + "_" + std::to_string(std::get<1>(param.param));
}

INSTANTIATE_TEST_SUITE_P(Everywhere, CommunicatorConformance,
                         ::testing::Combine(::testing::Values("inproc", "shm", "tcp", "routed", "gloo"),
                                            ::testing::ValuesIn(sizes)),
                         test_name);
INSTANTIATE_TEST_SUITE_P(Everywhere, AlgorithmConformance,
                         ::testing::Combine(::testing::Values("inproc", "shm", "tcp", "routed", "three_hosts",
                                                              "lopsided", "racks", "gloo"),
                                            ::testing::ValuesIn(sizes)),
                         test_name);

}  // namespace
}  // namespace tutti::testing
