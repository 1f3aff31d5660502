// Ping-pong of two threads, with one cache line each way.
#include "benchmarks/versus/flag.hpp"

#include <sched.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <thread>
#include <vector>

#include "transports/core/host.hpp"

namespace tutti::bench {
namespace {

using Clock = std::chrono::steady_clock;

constexpr int blocks = 200, trips = 25, blocks_at_once = 10;
constexpr auto pause_between = std::chrono::milliseconds(3);  // spreads the blocks over time
constexpr auto patience = std::chrono::milliseconds(500);     // limit if others use these cores
constexpr std::uint32_t over = ~std::uint32_t{0};

struct Line {
  alignas(64) std::atomic<std::uint32_t> word{0};
};

void bind_to(int core) {
  cpu_set_t set;
  CPU_ZERO(&set);
  CPU_SET(static_cast<unsigned>(core), &set);
  sched_setaffinity(0, sizeof set, &set);  // this thread; if that fails, the scheduler places it
}

void answer(Line& there, Line& back, int core) {
  bind_to(core);
  for (std::uint32_t seen = 0; seen != over;) {
    const std::uint32_t now = there.word.load(std::memory_order_acquire);
    if (now != seen) back.word.store(seen = now, std::memory_order_release);
  }
}

}  // namespace

double flag_ns() {
  const std::vector<int> cores = allowed_cores();
  if (cores.size() < 2) return 0;
  Line there, back;
  std::vector<double> nanoseconds;
  std::jthread first([&] {
    bind_to(cores[0]);
    const auto end = Clock::now() + patience;
    std::uint32_t number = 0;
    for (int block = 0; block < blocks && (block == 0 || Clock::now() < end); ++block) {
      if (block % blocks_at_once == 0) std::this_thread::sleep_for(pause_between);
      const auto start = Clock::now();
      for (int i = 0; i < trips; ++i) {
        there.word.store(++number, std::memory_order_release);
        while (back.word.load(std::memory_order_acquire) != number) {
        }
      }
      nanoseconds.push_back(std::chrono::duration<double, std::nano>(Clock::now() - start).count() / (2 * trips));
    }
    there.word.store(over, std::memory_order_release);
  });
  std::jthread second([&] { answer(there, back, cores[1]); });
  first.join();
  second.join();
  std::nth_element(nanoseconds.begin(), nanoseconds.begin() + static_cast<std::ptrdiff_t>(nanoseconds.size() / 2),
                   nanoseconds.end());
  return nanoseconds[nanoseconds.size() / 2];
}

}  // namespace tutti::bench
