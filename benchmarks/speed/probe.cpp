// Prints figures other than times of collectives, as "name value" lines. `speed_probe roof [THREADS [BYTES]]` is one
// process; `memory` and `start` are ranks of a job (tutti run -np 8 speed_probe memory).
#include <sched.h>

#include <algorithm>
#include <array>
#include <barrier>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <fstream>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "transports/core/copy.hpp"
#include "transports/core/host.hpp"
#include "tutti.hpp"

namespace {

using namespace tutti;
using Clock = std::chrono::steady_clock;

std::int64_t now() { return std::chrono::nanoseconds(Clock::now().time_since_epoch()).count(); }

double median(std::vector<double> values) {
  std::ranges::sort(values);
  return values[values.size() / 2];
}

// ---- The roof: GB/s that all threads copy together, past the caches, each between buffers of its own.

double roof(std::size_t threads, std::size_t bytes) {
  const std::vector<int> cores = allowed_cores();
  std::barrier meet(static_cast<std::ptrdiff_t>(threads));
  std::vector<std::array<std::int64_t, 2>> stamps(threads);
  std::vector<double> rates;
  std::vector<std::jthread> workers;
  for (std::size_t t = 0; t < threads; ++t)
    workers.emplace_back([&, t] {
      cpu_set_t set;
      CPU_ZERO(&set);
      CPU_SET(static_cast<std::size_t>(cores[t % cores.size()]), &set);
      ::sched_setaffinity(0, sizeof set, &set);
      std::vector<std::byte> from(bytes, std::byte{1}), into(bytes, std::byte{2});
      for (int i = 0; i < 25; ++i) {
        meet.arrive_and_wait();
        stamps[t][0] = now();
        copy_streaming(into.data(), from.data(), bytes);
        stamps[t][1] = now();
        meet.arrive_and_wait();
        if (t > 0) continue;
        std::array<std::int64_t, 2> whole = stamps[0];
        for (const auto& [entered, left] : stamps) whole = {std::min(whole[0], entered), std::max(whole[1], left)};
        rates.push_back(static_cast<double>(threads * bytes) / static_cast<double>(whole[1] - whole[0]));
      }
    });
  workers.clear();
  return median(std::move(rates));
}

// ---- Memory: this process's share of resident memory that belongs to no file, in KiB.

std::int64_t resident() {
  std::ifstream rollup("/proc/self/smaps_rollup");
  std::int64_t sum = 0;
  for (std::string word; rollup >> word;)
    if (std::int64_t kib = 0; (word == "Pss_Anon:" || word == "Pss_Shmem:") && rollup >> kib) sum += kib;
  return sum;
}

/// Small and large calls of most kinds.
void use(Communicator& world, std::vector<float>& in, std::vector<float>& out) {
  const std::size_t part = in.size() / static_cast<std::size_t>(world.size());
  for (const std::size_t count : {std::size_t{2}, in.size()}) {
    world.allreduce(std::span<const float>(in.data(), count), std::span(out.data(), count), sum).wait();
    world.broadcast(std::span(out.data(), count), 0).wait();
    world.reduce(std::span<const float>(in.data(), count), std::span(out.data(), count), sum, 0).wait();
  }
  world.allgather(std::span<const float>(in.data(), part), std::span(out)).wait();
  world.alltoall(std::span<const float>(in), std::span(out)).wait();
  world.barrier().wait();
}

/// The maximum over all ranks. Collective; blocks.
double most(Communicator& world, double value) { return world.allreduce(value, max).wait(); }

void print(Communicator& world, const char* name, double value) {
  if (world.rank() == 0) std::printf("%s %.3f\n", name, value);
}

void memory() {
  std::vector<float> in(4 << 20, 1), out(4 << 20, 1);  // 16 MiB each, resident
  const std::int64_t before = resident();
  Communicator world = Communicator::from_env();
  use(world, in, out);
  world.barrier().wait();
  const std::int64_t with_world = resident();
  print(world, "kib_per_rank", most(world, static_cast<double>(with_world - before)));
  std::vector<Communicator> further;
  constexpr int count = 8;
  const std::int64_t without = resident();
  for (int i = 0; i < count; ++i) use(further.emplace_back(world.dup()), in, out);
  world.barrier().wait();
  print(world, "kib_per_communicator", most(world, static_cast<double>(resident() - without) / count));
}

void start() {
  const std::int64_t entered = now();
  Communicator world = Communicator::from_env();
  const std::int64_t made = now();
  world.barrier().wait();
  const std::int64_t met = now();
  // All ranks read the same monotonic clock of the host. The time begins when the last rank enters, and ends when the
  // last one leaves.
  const auto latest = [&](std::int64_t stamp) { return most(world, static_cast<double>(stamp)); };
  print(world, "creation_us", (latest(made) - latest(entered)) / 1e3);
  if (const char* launched = std::getenv("SPEED_LAUNCHED_NS"))
    print(world, "first_barrier_ms", (latest(met) - std::strtod(launched, nullptr)) / 1e6);
  std::vector<double> splits;
  for (int i = 0; i < 51; ++i) {
    world.barrier().wait();
    const std::int64_t began = now();
    const std::optional<Communicator> half = world.split(world.rank() % 2);
    splits.push_back(static_cast<double>(now() - began) / 1e3);
  }
  print(world, "split_us", most(world, median(std::move(splits))));
}

}  // namespace

int main(int count, char** words) try {
  const std::string what = count > 1 ? words[1] : "";
  if (what == "roof") {
    const std::size_t threads = count > 2 ? std::stoul(words[2]) : 2,
                      bytes = count > 3 ? std::stoul(words[3]) : 64 << 20;
    std::printf("copied_gb_s %.3f\n", roof(threads, bytes));
  } else if (what == "memory") {
    memory();
  } else if (what == "start") {
    start();
  } else {
    std::fputs("speed_probe: wants roof [THREADS [BYTES]], memory, or start\n", stderr);
    return 2;
  }
  return 0;
} catch (const std::exception& error) {
  std::fprintf(stderr, "speed_probe: %s\n", error.what());
  return 1;
}
