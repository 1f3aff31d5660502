// A rank that comes late: what the others' questions cost in sockets.
//
//   late_probe LATE SECONDS   rank LATE comes SECONDS late to a barrier; rank 0 prints the most and the mean number of
//                             sockets of a rank before and after
#include <unistd.h>

#include <array>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <string>
#include <thread>

#include "tutti.hpp"

namespace {

std::int64_t open_sockets() {
  std::int64_t count = 0;
  std::error_code error;
  for (const auto& entry : std::filesystem::directory_iterator("/proc/self/fd")) {
    const auto target = std::filesystem::read_symlink(entry.path(), error);
    count += !error && target.string().starts_with("socket:") ? 1 : 0;
  }
  return count;
}

/// The most, and the sum, over all ranks.
std::array<std::int64_t, 2> sockets_of(std::int64_t mine, tutti::Communicator& world) {
  std::array<std::int64_t, 1> most{mine}, all{mine};
  world.allreduce(most, tutti::max).wait();
  world.allreduce(all, tutti::sum).wait();
  return {most[0], all[0]};
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 3) return std::fprintf(stderr, "usage: late_probe LATE SECONDS\n"), 2;
  auto world = tutti::Communicator::from_env();
  for (int i = 0; i < 2; ++i) {  // what the calls themselves need
    world.barrier().wait();
    sockets_of(0, world);
  }
  const std::int64_t before = open_sockets();
  world.barrier().wait();
  if (world.rank() == std::atoi(argv[1]))
    std::this_thread::sleep_for(std::chrono::duration<double>(std::atof(argv[2])));
  world.barrier().wait();
  const std::int64_t after = open_sockets();
  const auto first = sockets_of(before, world), second = sockets_of(after, world);
  if (world.rank() == 0)
    std::printf("sockets of a rank: before %lld (mean %.1f), after %lld (mean %.1f)\n",
                static_cast<long long>(first[0]), static_cast<double>(first[1]) / world.size(),
                static_cast<long long>(second[0]), static_cast<double>(second[1]) / world.size());
  return first == second ? 0 : 1;
}
