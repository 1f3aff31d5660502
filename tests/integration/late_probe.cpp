// The costs of a job of many ranks, and of a late and a dead rank.
//
//   late_probe LATE SECONDS         a barrier and an allreduce; then rank LATE comes SECONDS late to a barrier. Rank 0
//                                   prints the times, and memory and sockets of a rank before and after
//   late_probe LATE SECONDS kill    then rank LATE kills itself; rank 0 prints when it got the error, and its text
#include <unistd.h>

#include <array>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "tutti.hpp"
#include "tutti/clock.hpp"

namespace {

using namespace tutti;

std::int64_t open_sockets() {
  std::int64_t count = 0;
  std::error_code error;
  for (const auto& entry : std::filesystem::directory_iterator("/proc/self/fd")) {
    const auto target = std::filesystem::read_symlink(entry.path(), error);
    count += !error && target.string().starts_with("socket:") ? 1 : 0;
  }
  return count;
}

/// KiB of memory of this process: its private memory, and its proportional share of shared memory (Pss).
std::int64_t memory() {
  std::ifstream file("/proc/self/smaps_rollup");
  std::int64_t kib = 0;
  for (std::string word; file >> word;)
    if (word == "Pss:") file >> kib;
  return kib;
}

/// Returns the maximum and the sum over all ranks.
std::array<std::int64_t, 2> over_all(std::int64_t mine, Communicator& world) {
  std::array<std::int64_t, 1> most{mine}, all{mine};
  world.allreduce(most, max).wait();
  world.allreduce(all, sum).wait();
  return {most[0], all[0]};
}

double seconds_since(Clock::time_point then) { return Seconds(Clock::now() - then).count(); }

/// Rank `victim` kills itself in half a second, while the others wait for it.
int play_death(Communicator& world, int victim) {
  std::array<std::int64_t, 1> when{(Clock::now() + std::chrono::milliseconds(500)).time_since_epoch().count()};
  world.broadcast(when, victim).wait();
  const Clock::time_point death{Clock::duration(when[0])};
  if (world.rank() == victim) {
    std::this_thread::sleep_until(death);
    std::raise(SIGKILL);
  }
  try {
    for (;;) world.barrier().wait();
  } catch (const Error& error) {
    const bool right = error.culprit() == victim;
    if (world.rank() == 0 || !right)
      std::printf("told of %s after %.0f ms: %s\n", right ? "the death" : "something else", 1000 * seconds_since(death),
                  error.what());
    return right ? 0 : 1;
  }
}

}  // namespace

int main(int argc, char** argv) {
  const bool dies = argc == 4 && std::string_view(argv[3]) == "kill";
  if (argc != 3 && !dies) return std::fprintf(stderr, "usage: late_probe LATE SECONDS [kill]\n"), 2;
  const int late = std::atoi(argv[1]);
  const auto began = Clock::now();
  auto world = Communicator::from_env();
  world.barrier().wait();
  const double start = seconds_since(began);
  std::vector<float> values(1024, 1.0f);
  for (int i = 0; i < 2; ++i) {  // before the measurement, so that later calls need no more memory
    world.barrier().wait();
    world.allreduce(values).wait();
    over_all(0, world);
  }
  const auto first = Clock::now();
  world.allreduce(values).wait();
  const double allreduce = seconds_since(first);
  const std::int64_t before = open_sockets(), kib = memory();
  world.barrier().wait();
  if (world.rank() == late) std::this_thread::sleep_for(Seconds(std::atof(argv[2])));
  const auto waiting = Clock::now();
  world.barrier().wait();
  const double waited = seconds_since(waiting);
  const std::int64_t after = open_sockets(), kib_after = memory();
  const auto sockets = over_all(before, world), sockets_after = over_all(after, world);
  const std::int64_t all_kib = over_all(kib, world)[1], all_kib_after = over_all(kib_after, world)[1];
  const double ranks = world.size();
  if (world.rank() == 0) {
    std::printf("%d ranks, start and a barrier: %.2f s\nallreduce of 4 KiB: %.2f ms\nlate rank: waited %.2f s\n",
                world.size(), start, 1000 * allreduce, waited);
    std::printf("memory of a rank, mean: before %.0f KiB, after %.0f KiB\n", static_cast<double>(all_kib) / ranks,
                static_cast<double>(all_kib_after) / ranks);
    std::printf("sockets of a rank: before %lld (mean %.1f), after %lld (mean %.1f)\n",
                static_cast<long long>(sockets[0]), static_cast<double>(sockets[1]) / ranks,
                static_cast<long long>(sockets_after[0]), static_cast<double>(sockets_after[1]) / ranks);
    std::fflush(stdout);
  }
  if (sockets != sockets_after) return 1;
  return dies ? play_death(world, late) : 0;
}
