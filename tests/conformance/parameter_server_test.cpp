// The parameter server over every transport: TorchMPI's scenarios, the order of one worker's calls, sub-ranges, types.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <thread>

#include "collectives/tutti.hpp"
#include "collectives/tutti_parameter_server.hpp"
#include "tests/support/caught.hpp"
#include "tests/support/require.hpp"
#include "tests/support/thinned.hpp"
#include "tests/support/worlds.hpp"

namespace tutti::testing {
namespace {

using Floats = std::vector<float>;

class ParameterServers : public ::testing::TestWithParam<std::tuple<const char*, int>> {
 protected:
  int size() const { return std::get<1>(GetParam()); }
  void run(const std::function<void(Communicator&)>& body) const {
    const std::string transport = std::get<0>(GetParam());
    run_ranks(
        size(),
        [&](int rank) {
          Settings settings = test_settings(transport == "routed" ? "shm,tcp" : transport);
          if (transport == "routed") settings.host_id = rank % 2 == 0 ? "even" : "odd";
          return settings;
        },
        body);
  }
};

bool all_are(const Floats& data, float value) { return std::ranges::count(data, value) == std::ssize(data); }

TEST_P(ParameterServers, PushesAndPulls) {
  run([](Communicator& world) {
    ParameterServer server(world, {.settings = {{"steps", "7"}}});
    require(server.settings().at("steps") == "7", "the servers' settings");
    Parameters w = server.open("w", 1000, DType::f32);
    Floats mine(1000, 1.0f + static_cast<float>(world.rank())), got(1000);
    w.push("add", mine).wait();
    world.barrier().wait();
    const Request pull = w.pull(got);
    pull.wait();
    const int p = world.size();
    require(all_are(got, static_cast<float>(p * (p + 1) / 2)), "the sum of all");
    require(pull.versions().size() == static_cast<std::size_t>(p) && pull.version() == static_cast<std::uint64_t>(p),
            "each shard has had a push of each rank");
    world.barrier().wait();
    w.push_pull("scaled_add", mine, got, {.meta = {.factor = 0.5}}).wait();
    w.free();
  });
}

INSTANTIATE_TEST_SUITE_P(Everywhere, ParameterServers,
                         ::testing::Combine(::testing::Values("inproc", "shm", "tcp", "routed"),
                                            ::testing::Values(1, 2, 5)),
                         [](const auto& one) {
                           return std::string(std::get<0>(one.param)) + "_" + std::to_string(std::get<1>(one.param));
                         });

}  // namespace
}  // namespace tutti::testing
