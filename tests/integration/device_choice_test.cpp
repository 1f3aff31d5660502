// The backend of calls on device memory if none is named: NCCL if possible, else the memory of the processes directly,
// else staging through the host.
#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

#include "tests/support/device_cases.hpp"
#include "tests/support/processes.hpp"
#include "tutti/bootstrap.hpp"
#include "tutti/provider/provider.hpp"
#include "tutti/store.hpp"

namespace tutti::testing {
namespace {

struct Choice {
  const char* devices;
  std::string nccl, backends;
  DType dtype = DType::f32;
  std::string verify = "light";
};

/// Makes the world of one of two processes. Whatever takes more than a minute is too late for the test.
Communicator connected(const Choice& choice, int rank, const std::string& folder) {
  ::setenv("FAKE_DEVICES", choice.devices, 1);
  Bootstrap bootstrap;
  bootstrap.rank = bootstrap.local_rank = rank;
  bootstrap.size = bootstrap.local_size = 2;
  bootstrap.store = make_file_store(folder);
  bootstrap.settings = with_fake_nccl();
  bootstrap.settings.set("nccl_library", choice.nccl, "test");
  bootstrap.settings.device_backends = choice.backends;
  bootstrap.settings.verify = choice.verify;
  bootstrap.settings.tuning = "off";
  bootstrap.settings.job = folder;
  bootstrap.settings.secret = "choice";
  return Communicator::connect(bootstrap);
}

Data floats(std::size_t count, float value) {
  const std::vector<float> values(count, value);
  const auto* const bytes = reinterpret_cast<const std::byte*>(values.data());
  return {bytes, bytes + count * sizeof(float)};
}

/// An allreduce in place.
Collective allreduce_of(const OnDevice& data) {
  Collective call;
  call.kind = Kind::allreduce;
  call.in = call.out = data.buffer(DType::f32);
  return call;
}

int device_of(int rank) { return rank % static_cast<int>(fake_accelerator().devices().size()); }

/// Plays an allreduce on device memory on two ranks, and returns the backend that they chose for it.
std::string taken(const Choice& choice) {
  TemporaryFolder folder;
  Fleet fleet(2, [&](int rank) -> std::string {
    Communicator world = connected(choice, rank, folder.path());
    const int device = device_of(rank);
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

const Choice both_wanted[] = {{"2", TUTTI_FAKE_NCCL, "nccl,cudaipc"},
                              {"1", TUTTI_FAKE_NCCL, "nccl,cudaipc"},
                              {"2", TUTTI_FAKE_NCCL, "nccl,cudaipc", DType::f32, "full"}};

// The first calls of two communicators are started in opposite orders on the two ranks; further calls follow.
TEST_F(DeviceChoice, IsMadeInWhateverOrderCommunicatorsAreFirstUsed) {
  for (const Choice& choice : both_wanted) {
    TemporaryFolder folder;
    Fleet fleet(2, [&](int rank) -> std::string {
      Communicator world = connected(choice, rank, folder.path()), other = world.dup();
      const OnDevice here(device_of(rank), floats(5000, 1)), there(device_of(rank), floats(5000, 2));
      WorldRank first(rank == 0 ? world : other, device_of(rank), ""), second(rank == 0 ? other : world, 0, "");
      std::vector<Work> works;
      for (int i = 0; i < 3; ++i) {
        works.push_back(first.begin(allreduce_of(rank == 0 ? here : there)));
        works.push_back(second.begin(allreduce_of(rank == 0 ? there : here)));
      }
      for (const Work& work : works) work.wait();
      return here.read() == floats(5000, 8) && there.read() == floats(5000, 16) ? "" : "another result";
    });
    fleet.expect_success();
  }
}

// Also tests a first call, which must return at once.
TEST_F(DeviceChoice, ACallThatOneRankNeverMakesEndsByItsOwnDeadline) {
  for (const Choice& choice : both_wanted) {
    TemporaryFolder folder;
    Fleet fleet(2, [&](int rank) -> std::string {
      Communicator world = connected(choice, rank, folder.path()), other = world.dup();
      const auto store = make_file_store(folder.path());
      if (rank == 1) return store->wait("code", deadline_in(Seconds(60)));
      const OnDevice data(device_of(rank), floats(5000, 1));
      const Work work = other.allreduce(data.buffer(DType::f32), tutti::sum, {.timeout = 0.5});
      std::string code = "no error";
      try {
        work.wait();
      } catch (const Error& error) {
        code = name(error.code());
      }
      store->set("code", code);
      return code;
    });
    for (const int rank : {0, 1}) EXPECT_EQ(fleet.answer(rank), "timeout");
  }
}

// A first call names a backend that turns out to be missing: all ranks get an error.
TEST_F(DeviceChoice, ANameThatTheseRanksCannotHave) {
  TemporaryFolder folder;
  Fleet fleet(2, [&](int rank) -> std::string {
    Communicator world = connected({"2", "/nowhere/libnccl.so.2", "nccl"}, rank, folder.path());
    const OnDevice data(device_of(rank), floats(5000, 1));
    try {
      world.allreduce(data.buffer(DType::f32), tutti::sum, {.algorithm = "nccl"}).wait();
    } catch (const Error& error) {
      return std::string(name(error.code()));
    }
    return "no error";
  });
  for (const int rank : {0, 1}) EXPECT_EQ(fleet.answer(rank), "invalid");
}

}  // namespace
}  // namespace tutti::testing
