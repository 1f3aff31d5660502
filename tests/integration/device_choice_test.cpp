// Who does a call on device memory when nobody is named: NCCL where it can, else the processes' own memory, else the
// host.
#include <gtest/gtest.h>

#include <algorithm>

#include "collectives/bootstrap/bootstrap.hpp"
#include "collectives/bootstrap/stores.hpp"
#include "tests/support/device_cases.hpp"
#include "tests/support/processes.hpp"
#include "transports/modules.hpp"

namespace tutti::testing {
namespace {

struct Choice {
  const char* devices;
  std::string nccl, backends;
  DType dtype = DType::f32;
};

/// What two processes take for an allreduce on device memory, which they play.
std::string taken(const Choice& choice) {
  TemporaryFolder folder;
  Fleet fleet(2, [&](int rank) -> std::string {
    ::setenv("FAKE_DEVICES", choice.devices, 1);
    Bootstrap bootstrap;
    bootstrap.rank = bootstrap.local_rank = rank;
    bootstrap.size = bootstrap.local_size = 2;
    bootstrap.store = make_file_store(folder.path());
    bootstrap.settings = with_fake_nccl();
    bootstrap.settings.nccl_library = choice.nccl;
    bootstrap.settings.device_backends = choice.backends;
    bootstrap.settings.timeout = 60;
    bootstrap.settings.tuning = "off";
    bootstrap.settings.job = folder.path();
    bootstrap.settings.secret = "choice";
    Communicator world = Communicator::connect(bootstrap);
    const int device = rank % static_cast<int>(fake_accelerator().devices().size());
    WorldRank self(world, device, "");
    Folded(self, {Kind::allreduce, choice.dtype, tutti::sum, 5000, false, false}).play();
    Collective call;
    call.in = ConstBuffer(nullptr, 5000, choice.dtype, {Device::Kind::cuda, device});
    call.out = Buffer(nullptr, 5000, choice.dtype, {Device::Kind::cuda, device});
    call.kind = Kind::allreduce;
    if (::testing::Test::HasFailure()) return "see above";
    const std::string why = world.explain(call);
    return why.substr(0, why.find(':'));
  });
  const std::string first = fleet.answer(0), second = fleet.answer(1);
  return first == second ? first : first + ", but rank 1: " + second;
}

class DeviceChoice : public ::testing::Test {
 protected:
  void SetUp() override {
    const auto names = provider_names(Settings());
    for (const char* const name : {"nccl", "cudaipc"})
      if (std::ranges::count(names, name) == 0) GTEST_SKIP() << "this build has no " << name;
  }
};

TEST_F(DeviceChoice, AGpuEach) { EXPECT_EQ(taken({"2", TUTTI_FAKE_NCCL, "nccl,cudaipc"}), "nccl"); }
TEST_F(DeviceChoice, WhatNcclHasNotGot) {
  EXPECT_EQ(taken({"2", TUTTI_FAKE_NCCL, "nccl,cudaipc", DType::i16}), "staged");
}
TEST_F(DeviceChoice, OneGpuForBoth) { EXPECT_EQ(taken({"1", TUTTI_FAKE_NCCL, "nccl,cudaipc"}), "cudaipc"); }
TEST_F(DeviceChoice, NoNccl) { EXPECT_EQ(taken({"2", "/nowhere/libnccl.so.2", "nccl,cudaipc"}), "cudaipc"); }
TEST_F(DeviceChoice, NoneIsWanted) { EXPECT_EQ(taken({"2", TUTTI_FAKE_NCCL, ""}), "staged"); }

}  // namespace
}  // namespace tutti::testing
