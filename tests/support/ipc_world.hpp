// Ranks as processes that use the backend cudaipc over the fake accelerator.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "tests/support/device_cases.hpp"
#include "tests/support/processes.hpp"
#include "tests/support/temporary_folder.hpp"
#include "tutti/bootstrap.hpp"
#include "tutti/provider/provider.hpp"
#include "tutti/store.hpp"

namespace tutti::testing {

class CudaIpc : public ::testing::Test {
 protected:
  void SetUp() override {
    const auto names = provider_names(Settings());
    if (std::ranges::count(names, "cudaipc") == 0) GTEST_SKIP() << "this build has no modules";
  }
  struct Shape {
    int ranks, devices;
  };
  using Body = std::function<void(Communicator&, WorldRank&)>;
  /// Starts the ranks as processes. A rank's answer is what its body throws, or a failed EXPECT.
  Fleet begin(Shape shape, const Body& body, const Settings& settings = {}) {
    ++runs_;
    return Fleet(shape.ranks, [&](int rank) { return play(rank, shape, body, settings); });
  }
  void run(Shape shape, const Body& body, const Settings& settings = {}) {
    Fleet fleet = begin(shape, body, settings);
    fleet.expect_success();
  }

 private:
  std::string play(int rank, Shape shape, const Body& body, const Settings& settings) {
    ::setenv("FAKE_DEVICES", std::to_string(shape.devices).c_str(), 1);
    use_fake_gpus().stumble(true);
    Bootstrap bootstrap;
    bootstrap.rank = bootstrap.local_rank = rank;
    bootstrap.size = bootstrap.local_size = shape.ranks;
    bootstrap.store = make_prefix_store(make_file_store(folder_.path()), "run/" + std::to_string(runs_));
    bootstrap.settings = settings;
    if (settings.timeout == 300) bootstrap.settings.timeout = 60;
    bootstrap.settings.job = folder_.path() + std::to_string(runs_);
    bootstrap.settings.secret = "ipc";
    bootstrap.settings.tuning = "off";
    Communicator world = Communicator::connect(bootstrap);
    world.use_backend("cudaipc");
    WorldRank self(world, rank % shape.devices, "cudaipc");
    body(world, self);
    return ::testing::Test::HasFailure() ? "see above" : "";
  }
  int runs_ = 0;

 protected:
  TemporaryFolder folder_;
};

inline Collective allreduce_of(const OnDevice& in, const OnDevice& out) {
  Collective call;
  call.kind = Kind::allreduce;
  call.in = in.buffer(DType::f32);
  call.out = out.buffer(DType::f32);
  return call;
}

inline Data floats(std::size_t count, float value) {
  const std::vector<float> values(count, value);
  const auto* const bytes = reinterpret_cast<const std::byte*>(values.data());
  return {bytes, bytes + count * sizeof(float)};
}

}  // namespace tutti::testing
