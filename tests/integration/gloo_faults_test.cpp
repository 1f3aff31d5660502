// A rank is killed during a call of the gloo backend: every survivor gets an error that names it.
#include <gtest/gtest.h>

#include <chrono>
#include <thread>

#include "tests/support/going.hpp"
#include "tests/support/processes.hpp"
#include "tutti.hpp"
#include "tutti/bootstrap.hpp"
#include "tutti/provider/provider.hpp"

namespace tutti::testing {
namespace {

using namespace std::chrono_literals;

Communicator join(const std::string& folder, const std::string& transport, int rank, int size) {
  Bootstrap bootstrap;
  bootstrap.rank = bootstrap.local_rank = rank;
  bootstrap.size = bootstrap.local_size = size;
  bootstrap.store = make_file_store(folder);
  bootstrap.settings.transport = transport;
  bootstrap.settings.backend = "gloo";
  bootstrap.settings.timeout = 60;
  bootstrap.settings.job = folder;
  bootstrap.settings.secret = "fault";
  return Communicator::connect(bootstrap);
}

class GlooFaults : public ::testing::TestWithParam<const char*> {
 protected:
  void SetUp() override {
    if (const Found found = find_provider("gloo", Settings()); !found.reason.empty()) GTEST_SKIP() << found.reason;
  }
  TemporaryFolder folder_;
};

TEST_P(GlooFaults, TheDeadRankIsNamedByEverySurvivor) {
  constexpr int size = 4, victim = 2;
  Fleet fleet(size, [&](int rank) -> std::string {
    Communicator world = join(folder_.path(), GetParam(), rank, size);
    std::vector<float> data(4 << 20, 1.0f);
    try {
      for (int i = 0;; ++i) {
        world.allreduce(data, max, {.algorithm = i % 2 ? "gloo/bcube" : "gloo/ring"}).wait();
        if (i == 0) say_going(folder_.path(), rank);
      }
    } catch (const Error& error) {
      if (error.code() == Code::peer_lost && error.culprit() == victim) return {};
      return error.what();
    }
  });
  wait_until_going(folder_.path(), size);
  std::this_thread::sleep_for(30ms);
  fleet.expect_success_without(victim);
}

INSTANTIATE_TEST_SUITE_P(Over, GlooFaults, ::testing::Values("shm", "tcp"),
                         [](const auto& one) { return std::string(one.param); });

}  // namespace
}  // namespace tutti::testing
