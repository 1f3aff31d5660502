// A job that strangers call while it starts and runs. It checks all its results.
//
//   strangers_probe FOLDER    every rank waits for FOLDER/go, then connects; after the first call, which connects all
//                             pairs, rank 0 prints "started SECONDS" of
//                             the monotonic clock. Calls go on until
//                             FOLDER/stop is there. Every rank then prints "rank R made N calls, has D descriptors".
//   strangers_probe FOLDER serve    rank 0 serves parameters, to which the others push until FOLDER/stop is there; it
//                                   writes the address for newcomers to FOLDER/door
//   strangers_probe FOLDER join     a newcomer: waits for FOLDER/go, joins, pushes, prints "started SECONDS", leaves
#include <unistd.h>

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>
#include <thread>
#include <vector>

#include "tutti.hpp"
#include "tutti/clock.hpp"
#include "tutti/parameter_server.hpp"

namespace {

using namespace tutti;

void require(bool right, const char* what) {
  if (right) return;
  std::fprintf(stderr, "wrong: %s\n", what);
  std::exit(1);
}

void check_alltoall(Communicator& world, int turn) {
  const auto n = static_cast<std::size_t>(world.size());
  constexpr std::size_t each = 300;
  std::vector<std::int32_t> out(n * each), back(n * each);
  for (std::size_t i = 0; i < out.size(); ++i)
    out[i] = world.rank() * 10'000 + static_cast<int>(i / each) * 100 + turn % 97 + static_cast<int>(i % each);
  world.alltoall(std::span<const std::int32_t>(out), std::span<std::int32_t>(back)).wait();
  for (std::size_t i = 0; i < back.size(); ++i)
    require(
        back[i] == static_cast<int>(i / each) * 10'000 + world.rank() * 100 + turn % 97 + static_cast<int>(i % each),
        "alltoall");
}

void check_allreduce(Communicator& world, int turn) {
  const std::int32_t n = world.size(), ranks = n * (n - 1) / 2;
  std::vector<std::int32_t> data(20'000);
  for (std::size_t i = 0; i < data.size(); ++i) data[i] = static_cast<int>(i) + turn + world.rank();
  world.allreduce(data, sum).wait();
  for (std::size_t i = 0; i < data.size(); ++i)
    require(data[i] == (static_cast<int>(i) + turn) * n + ranks, "allreduce");
}

std::ptrdiff_t descriptors() {
  return std::distance(std::filesystem::directory_iterator("/proc/self/fd"), std::filesystem::directory_iterator());
}

bool there(const std::string& file) { return ::access(file.c_str(), F_OK) == 0; }

void wait_for(const std::string& file) {
  while (!there(file)) std::this_thread::sleep_for(std::chrono::milliseconds(1));
}

void tell_start() {
  std::printf("started %.6f\n", Seconds(Clock::now().time_since_epoch()).count());
  std::fflush(stdout);
}

void tell_end(int rank, int calls) {
  std::printf("rank %d made %d calls, has %td descriptors\n", rank, calls, descriptors());
}

int play(const std::string& folder) {
  wait_for(folder + "/go");
  Communicator world = Communicator::from_env();
  check_alltoall(world, 0);
  if (world.rank() == 0) tell_start();
  int calls = 1;
  for (bool more = true; more; calls += 3) {
    check_alltoall(world, calls);
    check_allreduce(world, calls);
    more = world.allreduce(int{there(folder + "/stop")}, max).wait() == 0;
    std::this_thread::sleep_for(std::chrono::milliseconds(5));  // the strangers need the cores as well
  }
  tell_end(world.rank(), calls);
  return 0;
}

/// Pushes once, and checks that all elements equal the number of pushes so far.
void check_push(const Parameters& parameters, int before) {
  const std::vector<float> data(1000, 1);
  std::vector<float> got(data.size());
  parameters.push_pull("add", std::span<const float>(data), std::span<float>(got)).wait();
  for (const float one : got) require(one == got[0] && one > static_cast<float>(before), "push");
}

int serve(const std::string& folder) {
  Communicator world = Communicator::from_env();
  ParameterServer server(world, {.servers = {0}, .workers = {1, 2, 3}, .joins = 1});
  int calls = 0;
  if (world.rank() == 0) {
    std::ofstream(folder + "/address") << server.address();
    std::filesystem::rename(folder + "/address", folder + "/door");
    server.serve();
  } else {
    const Parameters parameters = server.open("w", 1000, DType::f32);
    for (; !there(folder + "/stop"); ++calls) {
      check_push(parameters, calls);
      std::this_thread::sleep_for(std::chrono::milliseconds(5));
    }
  }
  tell_end(world.rank(), calls);
  return 0;
}

int join(const std::string& folder) {
  std::string address;
  wait_for(folder + "/door");
  std::ifstream(folder + "/door") >> address;
  wait_for(folder + "/go");
  ParameterServer late({address}, {}, Settings::from_environment());
  const Parameters parameters = late.open("w", 1000, DType::f32);
  check_push(parameters, 0);
  tell_start();
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 2) return 2;
  const std::string folder = argv[1], what = argc > 2 ? argv[2] : "play";
  return what == "serve" ? serve(folder) : what == "join" ? join(folder) : play(folder);
}
