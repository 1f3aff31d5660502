// Many ranks on a host, and many communicators: measures what they hold, and checks what they compute.
//
//   many_probe ranks     an allreduce of 8 B and one of 1 MiB, a split with an allreduce, an alltoall; rank 0 prints
//                        the seconds from its start to the end of the first call, and after each the ranks' memory
//   many_probe start     only the first of these calls
//   many_probe wait      the first of these, "all are there" at rank 0, then allreduces until one fails; prints why
//   many_probe groups N  N communicators at a time; rank 0 prints memory and time of each, of their first small and
//                        their first large call, and of a small allreduce in the world
#include <array>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <functional>
#include <string>
#include <thread>
#include <vector>

#include "tutti.hpp"
#include "tutti/clock.hpp"

namespace {

using namespace tutti;

double seconds_since(Clock::time_point then) { return Seconds(Clock::now() - then).count(); }

/// KiB of memory that the processes of all ranks hold together; what they share is counted once.
struct Memory {
  std::int64_t all = 0, shared = 0;  ///< `shared`: the part of `all` that is shared between ranks
};

Memory memory(Communicator& world) {
  std::ifstream file("/proc/self/smaps_rollup");
  std::array<std::int64_t, 2> mine{};
  for (std::string word; file >> word;) {
    if (word == "Pss:") file >> mine[0];
    if (word == "Pss_Shmem:") file >> mine[1];
  }
  world.barrier().wait();  // all ranks read at the same time
  world.allreduce(mine, sum).wait();
  return {mine[0], mine[1]};
}

/// Seconds since this process began.
double age() {
  std::ifstream stat("/proc/self/stat"), up("/proc/uptime");
  std::string text;
  std::getline(stat, text);
  text.erase(0, text.rfind(')') + 2);
  std::size_t at = 0;
  for (int field = 3; field < 22; ++field) at = text.find(' ', at) + 1;
  double now = 0;
  up >> now;
  return now - std::strtod(text.c_str() + at, nullptr) / 100.0;
}

void require(bool right, const char* what) {
  if (right) return;
  std::fprintf(stderr, "wrong: %s\n", what);
  std::exit(1);
}

void check_small(Communicator& in) {
  const std::int64_t n = in.size();
  require(in.allreduce(std::int64_t{in.rank()}, sum).wait() == n * (n - 1) / 2, "allreduce of 8 B");
}

void check_large(Communicator& in, std::size_t bytes) {
  std::vector<std::int32_t> data(bytes / sizeof(std::int32_t));
  for (std::size_t i = 0; i < data.size(); ++i) data[i] = static_cast<std::int32_t>(i % 1000) + in.rank();
  in.allreduce(data, sum).wait();
  const std::int32_t n = in.size(), ranks = n * (n - 1) / 2;
  for (std::size_t i = 0; i < data.size(); ++i)
    require(data[i] == static_cast<std::int32_t>(i % 1000) * n + ranks, "a large allreduce");
}

void check_alltoall(Communicator& in) {
  const auto n = static_cast<std::size_t>(in.size()), each = std::size_t{512};
  std::vector<std::int32_t> out(n * each), back(n * each);
  for (std::size_t to = 0; to < n; ++to)
    for (std::size_t i = 0; i < each; ++i) out[to * each + i] = in.rank() * 10'000 + static_cast<int>(to * 3 + i % 7);
  in.alltoall(std::span<const std::int32_t>(out), std::span<std::int32_t>(back)).wait();
  for (std::size_t from = 0; from < n; ++from)
    for (std::size_t i = 0; i < each; ++i)
      require(back[from * each + i] == static_cast<int>(from) * 10'000 + in.rank() * 3 + static_cast<int>(i % 7),
              "alltoall");
}

void look(Communicator& world, const char* after) {
  const Memory kib = memory(world);
  if (world.rank() == 0)
    std::printf("%s: %ld KiB, %ld for each rank, of these %ld shared\n", after, static_cast<long>(kib.all),
                static_cast<long>(kib.all / world.size()), static_cast<long>(kib.shared / world.size()));
}

int start(Communicator& world) {
  check_small(world);
  if (world.rank() == 0) std::printf("%d ranks, the first call ended after %.2f s\n", world.size(), age());
  return 0;
}

int play_ranks(Communicator& world) {
  start(world);
  look(world, "allreduce of 8 B");
  check_large(world, 1 << 20);
  look(world, "allreduce of 1 MiB");
  std::optional<Communicator> part = world.split(world.rank() % 4);
  check_small(*part);
  check_large(*part, 1 << 16);
  look(world, "split");
  check_alltoall(world);
  look(world, "alltoall");
  return 0;
}

int wait_for_the_end(Communicator& world) {
  check_small(world);
  if (world.rank() == 0) std::printf("all are there\n");
  std::fflush(stdout);
  try {
    for (;;) world.allreduce(1).wait();
  } catch (const Error& error) {
    std::printf("%s\n", error.what());
    return 3;
  }
}

/// Returns the mean time of an allreduce of 8 B, in microseconds.
double time_small(Communicator& world) {
  constexpr int calls = 5000;
  std::int64_t value = 1;
  world.barrier().wait();
  const auto began = Clock::now();
  for (int i = 0; i < calls; ++i) world.allreduce(std::span(&value, 1), max).wait();
  return seconds_since(began) / calls * 1e6;
}

int play_groups(Communicator& world, int count) {
  check_large(world, 1 << 20);
  const bool tells = world.rank() == 0;
  const double quiet = time_small(world);
  const Memory before = memory(world);
  std::vector<Communicator> groups;
  const auto step = [&](const char* what, const std::function<void(int)>& body) {
    const auto began = Clock::now();
    for (int i = 0; i < count; ++i) body(i);
    world.barrier().wait();
    const double each = seconds_since(began) / count * 1e6;
    const Memory now = memory(world);
    const auto of_each = [&](std::int64_t kib) { return static_cast<double>(kib) / count / world.size(); };
    if (tells)
      std::printf(
          "%s: %.1f us; together %ld KiB more than before, %.2f KiB for each group and rank, of these %.2f shared\n",
          what, each, static_cast<long>(now.all - before.all), of_each(now.all - before.all),
          of_each(now.shared - before.shared));
  };
  step("made", [&](int) { groups.push_back(world.dup()); });
  step("a call of 8 B", [&](int i) { check_small(groups[static_cast<std::size_t>(i)]); });
  const double crowded = time_small(world);
  if (tells) std::printf("8 B in the world: %.2f us before, %.2f us with %d groups\n", quiet, crowded, count);
  step("a call of 16 KiB", [&](int i) { check_large(groups[static_cast<std::size_t>(i)], 16 << 10); });
  step("a call of 256 KiB", [&](int i) { check_large(groups[static_cast<std::size_t>(i)], 256 << 10); });
  step("dropped", [&](int) { groups.pop_back(); });
  std::this_thread::sleep_for(std::chrono::seconds(3));
  const Memory after = memory(world);
  if (tells)
    std::printf("3 s later: together %ld KiB more than before, of these %ld shared\n",
                static_cast<long>(after.all - before.all), static_cast<long>(after.shared - before.shared));
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  const std::string what = argc > 1 ? argv[1] : "ranks";
  Communicator world = Communicator::from_env();
  if (what == "start") return start(world);
  if (what == "wait") return wait_for_the_end(world);
  if (what == "groups") return play_groups(world, argc > 2 ? std::atoi(argv[2]) : 1000);
  return play_ranks(world);
}
