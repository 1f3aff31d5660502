// The speed of the parameter server beside bare send and recv. Rank 0 is the server, the other ranks are workers.
//
//   tutti run -np 2 speed_servers        round trips of 1 KiB, and bandwidth with 64 MiB
//   tutti run -np 9 speed_servers        requests per second of all workers together
//
// Rank 1 prints a table of medians. The two kinds of measurements alternate, so that both see the same machine load.
#include <algorithm>
#include <cstdio>
#include <functional>
#include <numeric>
#include <vector>

#include "tutti.hpp"
#include "tutti/parameter_server.hpp"

namespace tutti {
namespace {

double seconds_of(const std::function<void()>& what) {
  const auto begin = Clock::now();
  what();
  return Seconds(Clock::now() - begin).count();
}

double median(std::vector<double> times) {
  std::ranges::sort(times);
  return times[times.size() / 2];
}

/// Median seconds of one exchange on rank 1. It sends `data` to rank 0, which returns all of it (`back`) or 1 element.
double exchange(Communicator& pair, std::vector<float>& data, int rounds, bool back) {
  std::vector<double> times;
  for (int i = 0; i < rounds; ++i)
    times.push_back(seconds_of([&] {
      if (pair.rank() == 1) {
        pair.send(data, 0).wait();
        pair.recv(std::span(data).first(back ? data.size() : 1), 0).wait();
      } else {
        pair.recv(data, 1).wait();
        pair.send(std::span(data).first(back ? data.size() : 1), 1).wait();
      }
    }));
  return median(times);
}

struct Row {
  const char* what;
  double served, bare;
};

// Bare messages are measured before and after the served ones: between these, rank 0 waits for its server thread.
Row compare(Communicator& world, std::optional<Communicator>& pair, const char* what, std::size_t count, int rounds,
            const std::function<void(Parameters&, std::vector<float>&)>& request, bool back) {
  std::vector<float> data(count, 1);
  std::vector<double> bare, served;
  const auto messages = [&] {
    if (pair) bare.push_back(exchange(*pair, data, rounds, back));
    world.barrier().wait();
  };
  messages();
  {
    ParameterServer server(world, {.servers = {0}, .workers = {1}});
    if (server.is_worker()) {
      Parameters w = server.open("w", count, DType::f32);
      request(w, data);
      std::vector<double> times;
      for (int i = 0; i < rounds; ++i) times.push_back(seconds_of([&] { request(w, data); }));
      served.push_back(median(times));
    }
    server.serve();
  }
  world.barrier().wait();
  messages();
  return {what, served.empty() ? 0 : served[0], bare.empty() ? 0 : median(bare)};
}

void print(const Row& row, std::size_t bytes) {
  if (bytes < 1 << 20)
    std::printf("%-24s %10.1f us   bare messages %10.1f us   %.2f times as long\n", row.what, 1e6 * row.served,
                1e6 * row.bare, row.served / row.bare);
  else
    std::printf("%-24s %10.2f GB/s bare messages %10.2f GB/s %.0f %% of them\n", row.what,
                1e-9 * static_cast<double>(bytes) / row.served, 1e-9 * static_cast<double>(bytes) / row.bare,
                100 * row.bare / row.served);
}

void crowd(Communicator& world) {
  std::vector<int> workers(static_cast<std::size_t>(world.size() - 1));
  std::iota(workers.begin(), workers.end(), 1);
  constexpr int each = 2000;
  ParameterServer server(world, {.servers = {0}, .workers = workers});
  if (server.is_server()) return server.serve();
  Parameters w = server.open("w", 256, DType::f32);
  std::vector<float> data(256, 1), got(256);
  w.push_pull("add", data, got).wait();
  const double seconds = seconds_of([&] {
    for (int i = 0; i < each; ++i) w.push_pull("add", data, got).wait();
  });
  if (world.rank() == 1)
    std::printf("%zu workers              %10.0f requests of 1 KiB a second, one waits %.1f us\n", workers.size(),
                each * static_cast<double>(workers.size()) / seconds, 1e6 * seconds / each);
}

void run() {
  Communicator world = Communicator::from_env();
  if (world.size() < 2) throw Error(Code::invalid, "speed_servers: run it with two ranks at least");
  std::optional<Communicator> pair = world.subgroup(std::vector<int>{0, 1});
  constexpr std::size_t small = 256, large = 16 << 20;
  const Row trip = compare(
      world, pair, "push_pull of 1 KiB", small, 2000,
      [](Parameters& w, std::vector<float>& data) { w.push_pull("add", data, data).wait(); }, true);
  const Row push = compare(
      world, pair, "push 'copy' of 64 MiB", large, 15,
      [](Parameters& w, std::vector<float>& data) { w.push("copy", data).wait(); }, false);
  const Row add = compare(
      world, pair, "push 'add' of 64 MiB", large, 15,
      [](Parameters& w, std::vector<float>& data) { w.push("add", data).wait(); }, false);
  const Row pull = compare(
      world, pair, "pull of 64 MiB", large, 15, [](Parameters& w, std::vector<float>& data) { w.pull(data).wait(); },
      false);
  if (world.rank() == 1) {
    print(trip, 4 * small);
    for (const Row& row : {push, add, pull}) print(row, 4 * large);
  }
  crowd(world);
}

}  // namespace
}  // namespace tutti

int main() {
  try {
    tutti::run();
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 1;
  }
}
