// The cost of making a communicator while many others exist.
#include <thread>

#include "benchmarks/growth/heap.hpp"
#include "benchmarks/growth/jobs.hpp"
#include "benchmarks/growth/law.hpp"

namespace tutti::growth {
namespace {

struct Made {
  double allocations = 0, bytes = 0, seconds = 0;  // for one more communicator, both ranks together
};

/// Two ranks make communicators of both ranks while `alive` other communicators exist. Returns the cost of one.
Made group_beside(std::int64_t alive) {
  constexpr int more = 64;
  const std::shared_ptr<Store> store = make_local_store();
  Made made;
  const auto play = [&](int rank) {
    Communicator world = world_of_thread(store, rank, 2);
    std::vector<Communicator> groups;
    groups.reserve(static_cast<std::size_t>(alive) + more);
    for (std::int64_t i = 0; i < alive; ++i) groups.push_back(world.dup());
    world.barrier().wait();
    const Heap before = heap_now();
    const auto begin = Clock::now();
    for (int i = 0; i < more; ++i) groups.push_back(world.dup());
    world.barrier().wait();
    if (rank == 0) {
      const Heap after = heap_now();
      made = {(after.allocations - before.allocations) / more, (after.bytes - before.bytes) / more,
              Seconds(Clock::now() - begin).count() / more};
    }
    world.barrier().wait();
  };
  std::thread other([&] { play(1); });
  play(0);
  other.join();
  return made;
}

}  // namespace

std::vector<Law> call_laws() {
  const std::vector<std::int64_t> alive = {64, 1024, 8192};
  return {
      {"calls", "allocations for one more group, by how many live", How::threads, alive,
       [](std::int64_t n) { return group_beside(n).allocations; }, 0.02, 200},
      {"calls", "bytes that one more group holds, by how many live", How::threads, alive,
       [](std::int64_t n) { return group_beside(n).bytes; }, 0.05, 32768},
      {"calls", "seconds for one more group, by how many live", How::threads, alive,
       [](std::int64_t n) { return group_beside(n).seconds; }, 0.1, 1e-3, false},
  };
}

}  // namespace tutti::growth
