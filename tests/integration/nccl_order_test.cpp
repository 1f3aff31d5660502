// Calls of several NCCL communicators: all ranks launch them in the same order, one after the other, on one thread.
#include <chrono>
#include <optional>
#include <random>
#include <sstream>
#include <thread>

#include "tests/support/nccl_world.hpp"

namespace tutti::testing {
namespace {

using namespace std::chrono_literals;

using NcclOrder = NcclWorld;

std::string launches(int device) {
  std::vector<std::uint64_t> names(1000);
  names.resize(
      of_fake_nccl<std::size_t(int, std::uint64_t*, std::size_t)>("fake_nccl_launches")(device, names.data(), 1000));
  std::ostringstream text;
  for (const std::uint64_t one : names) text << one << ' ';
  return text.str();
}

// Returns "" or how the launches of this rank so far differ from those of another rank.
std::string differs(Communicator& world, const std::string& folder) {
  const auto store = make_prefix_store(make_file_store(folder), "launches/" + std::to_string(world.size()));
  const std::string mine = launches(world.rank()), first = store->set_once("launches", mine);
  return mine == first ? "" : "launched " + mine + "\nbut another rank " + first;
}

// Makes calls of two communicators, in another order on each rank. Returns "" or how the launches differ.
std::string differing_launches(Communicator& world, const std::string& folder) {
  Communicator other = world.dup();
  other.use_backend("nccl");
  std::minstd_rand random(static_cast<unsigned>(world.rank()) + 1);
  std::vector<OnDevice> data;
  for (int i = 0; i < 60; ++i) data.push_back(floats(world.rank(), 100, 1.0f));
  std::vector<Work> works;
  for (int round = 0; round < 10; ++round) {  // three calls of each, in an order of this rank's choice
    std::vector<int> second = {0, 0, 0, 1, 1, 1};
    std::ranges::shuffle(second, random);
    for (const int one : second)
      works.push_back((one == 1 ? other : world).allreduce(data[works.size()].buffer(DType::f32), tutti::sum, by_nccl));
  }
  std::ranges::shuffle(works, random);
  for (const Work& work : works) work.wait();
  for (const OnDevice& one : data)
    if (auto bad = wrong(one, static_cast<float>(world.size())); !bad.empty()) return bad;
  return differs(world, folder);
}

TEST_F(NcclOrder, TwoCommunicatorsLaunchInOneOrder) {
  for (const int size : {2, 4})
    run(size, [&](Communicator& world) { return differing_launches(world, folder_.path()); });
}

// NCCL launches calls on its own thread, some time after the call.
TEST_F(NcclOrder, TwoCommunicatorsThatAreLaunchedLaterAreSoInOneOrder) {
  for (const int size : {2, 4})
    run(size, [&](Communicator& world) { return differing_launches(world, folder_.path()); },
        {{"FAKE_NCCL_SLOW_LAUNCH", "1"}});
}

// Rank 0 launches a call at once, as it has one communicator. The others make it last, after three calls of another.
TEST_F(NcclOrder, ACallThatWasLaunchedAloneStaysBeforeThoseOfALaterCommunicator) {
  for (const int size : {2, 4})
    run(size,
        [&](Communicator& world) -> std::string {
          Communicator aside = world.dup();
          std::vector<OnDevice> data;
          for (int i = 0; i < 5; ++i) data.push_back(floats(world.rank(), 100, 1.0f));
          const auto summed = [&](Communicator& one, std::size_t i) {
            return one.allreduce(data[i].buffer(DType::f32), tutti::sum, by_nccl);
          };
          summed(world, 0).wait();
          std::vector<Work> works;
          if (world.rank() == 0) works.push_back(summed(world, 1));
          Communicator other = aside.dup();
          other.use_backend("nccl");
          for (std::size_t i = 2; i < 5; ++i) works.push_back(summed(other, i));
          if (world.rank() != 0) works.push_back(summed(world, 1));
          for (const Work& work : works) work.wait();
          for (const OnDevice& one : data)
            if (auto bad = wrong(one, static_cast<float>(size)); !bad.empty()) return bad;
          return differs(world, folder_.path());
        },
        {{"FAKE_NCCL_SLOW_LAUNCH", "30"}});
}

// A launch in progress belongs to its thread, so the thread finishes it before it uses another communicator.
TEST_F(NcclOrder, AThreadIsDoneWithOneCommunicatorBeforeItCallsAnother) {
  run(2,
      [](Communicator& world) -> std::string {
        Communicator other = world.dup();
        other.use_backend("nccl");
        OnDevice data = floats(world.rank(), 100, 1.0f);
        for (const int turn : {0, 1, 0, 1})
          (turn == 0 ? world : other).allreduce(data.buffer(DType::f32), tutti::sum, by_nccl).wait();
        return wrong(data, 16.0f);
      },
      {{"FAKE_NCCL_SLOW_LAUNCH", "1"}});
}

// Without an agreed order (nccl_order=issued) the ranks wait for one another, which shows that the fake detects this.
TEST_F(NcclOrder, InTheOrderOfTheCallsTheyMayWaitForOneAnother) {
  Settings settings;
  settings.set("nccl_order", "issued", "test");
  run(
      2,
      [this](Communicator& world) -> std::string {
        Communicator other = world.dup();
        other.use_backend("nccl");
        OnDevice a = floats(world.rank(), 100, 1.0f), b = floats(world.rank(), 100, 1.0f);
        world.allreduce(a.buffer(DType::f32), tutti::sum, by_nccl).wait();
        other.allreduce(b.buffer(DType::f32), tutti::sum, by_nccl).wait();
        const bool first = world.rank() == 0;
        const CallOptions brief{.timeout = 2, .algorithm = "nccl"};
        Work one = (first ? world : other).allreduce((first ? a : b).buffer(DType::f32), tutti::sum, brief);
        std::this_thread::sleep_for(100ms);
        Work two = (first ? other : world).allreduce((first ? b : a).buffer(DType::f32), tutti::sum, brief);
        const auto both = [&] {
          one.wait();
          two.wait();
        };
        // When one rank gives up first, the other rank's calls may succeed.
        const auto store = make_prefix_store(make_file_store(folder_.path()), "outcome");
        const auto of = [](int rank) { return std::to_string(rank); };
        const std::string mine = fails(both, Code::timeout, {});
        store->set(of(world.rank()), "=" + mine);
        const std::string theirs = store->wait(of(1 - world.rank()), deadline_in(Seconds(30))).substr(1);
        return mine.empty() || theirs.empty() ? "" : mine;
      },
      {}, settings);
}

// Rank 0's second call waits until a launch time is agreed. When only its communicator is left there, rank 0 launches
// it at once. Rank 1 still has two communicators, and needs the agreed time all the same.
TEST_F(NcclOrder, ACommunicatorThatGoesLeavesNoCallWithoutItsTime) {
  run(2, [](Communicator& world) -> std::string {
    Communicator aside = world.dup();
    std::optional<Communicator> other = aside.dup();
    const OnDevice a = floats(world.rank(), 100, 1.0f), b = floats(world.rank(), 100, 1.0f);
    const OnDevice warm = floats(world.rank(), 100, 1.0f);
    const auto summed = [&](const OnDevice& one) {
      return world.allreduce(one.buffer(DType::f32), tutti::sum, by_nccl);
    };
    summed(warm).wait();
    Work first, second;
    const bool ahead = world.rank() == 0;
    if (ahead) first = summed(a);
    other->use_backend("nccl");
    if (ahead) second = summed(b);
    if (ahead) other.reset();
    for (int i = 0; i < 20; ++i) aside.barrier().wait();
    if (!ahead) first = summed(a);
    if (!ahead) second = summed(b);
    first.wait();
    second.wait();
    if (auto bad = wrong(a, 2.0f); !bad.empty()) return bad;
    return wrong(b, 2.0f);
  });
}

}  // namespace
}  // namespace tutti::testing
