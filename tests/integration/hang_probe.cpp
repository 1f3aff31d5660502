// Programs with one mistake each, of which a hang follows: hang_probe SCENARIO. The doctor has to find the mistake.
#include <fcntl.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <map>
#include <string>
#include <thread>
#include <vector>

#include "tutti.hpp"

namespace {

using tutti::Communicator;

constexpr std::size_t count = 1000;

// Functions of the program in which a rank stays; the doctor has to name them.
[[gnu::noinline]] void compute_for_long() {
  static std::atomic<std::uint64_t> steps{0};
  for (;;) steps.fetch_add(1, std::memory_order_relaxed);
}

[[gnu::noinline]] void sleep_for_long() {
  for (;;) std::this_thread::sleep_for(std::chrono::hours(1));
}

[[gnu::noinline]] void read_from_nobody() {
  int ends[2];
  char byte = 0;
  if (::pipe(ends) == 0) static_cast<void>(!::read(ends[0], &byte, 1));
}

// What a rank does that has got an error: it stays, so that the others' state can be looked at.
void stay() { sleep_for_long(); }

struct World {
  Communicator world = Communicator::from_env();
  std::vector<float> data = std::vector<float>(count);
  int rank() const { return world.rank(); }
  void some_calls(int number = 3) {
    for (int i = 0; i < number; ++i) world.allreduce(data).wait();
  }
};

void late(World& w, const std::function<void()>& instead) {
  w.some_calls();
  if (w.rank() == 2) instead();
  w.world.allreduce(w.data).wait();
}

void other_order(World& w) {
  w.some_calls();
  if (w.rank() == 1) w.world.barrier().wait();
  w.world.broadcast(w.data, 0).wait();
  if (w.rank() != 1) w.world.barrier().wait();
}

void other_count(World& w) {
  w.some_calls();
  w.data.resize(w.rank() == 3 ? count / 2 : count);
  w.world.allreduce(w.data).wait();
}

void two_communicators(World& w) {
  Communicator first = w.world.dup(), second = w.world.dup();
  first.set_name("first");
  second.set_name("second");
  w.some_calls();
  if (w.rank() == 0) {
    first.allreduce(w.data).wait();
    second.allreduce(w.data).wait();
  } else {
    second.allreduce(w.data).wait();
    first.allreduce(w.data).wait();
  }
}

void receive_without_send(World& w) {
  w.some_calls();
  if (w.rank() == 1) w.world.recv(w.data, 0, 7).wait();
  if (w.rank() == 0) sleep_for_long();
  w.world.barrier().wait();
}

void other_tag(World& w) {
  w.some_calls();
  if (w.rank() == 1) w.world.recv(w.data, 0, 7).wait();
  if (w.rank() == 0) {
    w.world.send(w.data, 1, 8).wait();
    sleep_for_long();
  }
  w.world.barrier().wait();
}

void send_without_receive(World& w) {
  w.some_calls();
  std::vector<float> much(4 << 20);
  if (w.rank() == 0) w.world.send(much, 3, 5).wait();
  if (w.rank() == 3) compute_for_long();
  w.world.barrier().wait();
}

void both_receive_first(World& w) {
  w.some_calls();
  if (w.rank() > 1) return w.world.barrier().wait();
  std::vector<float> other(count);
  w.world.recv(other, 1 - w.rank(), 1).wait();
  w.world.send(w.data, 1 - w.rank(), 1).wait();
  w.world.barrier().wait();
}

void leaves_early(World& w) {
  w.some_calls();
  if (w.rank() == 3) return;
  w.world.allreduce(w.data).wait();
}

void group_of_one_less(World& w) {
  w.some_calls();
  const std::vector<int> members = {0, 1, 2};
  if (w.rank() == 2) sleep_for_long();
  if (w.rank() < 2) w.world.group(members, "three").barrier().wait();
  w.world.barrier().wait();
}

void another_communicator(World& w) {
  Communicator half = *w.world.split(w.rank() % 2);
  half.set_name("half");
  w.some_calls();
  // Rank 3 waits in its half for rank 1, which computes; all others wait for both.
  if (w.rank() == 3) half.allreduce(w.data).wait();
  if (w.rank() == 1) compute_for_long();
  w.world.allreduce(w.data).wait();
}

void all_elsewhere(World& w) {
  w.some_calls();
  read_from_nobody();
}

const std::map<std::string, std::function<void(World&)>>& scenarios() {
  static const std::map<std::string, std::function<void(World&)>> all = {
      {"computes", [](World& w) { late(w, compute_for_long); }},
      {"late_last",
       [](World& w) {
         w.some_calls();
         if (w.rank() == w.world.size() - 1) compute_for_long();
         w.world.allreduce(w.data).wait();
       }},
      {"sleeps", [](World& w) { late(w, sleep_for_long); }},
      {"reads", [](World& w) { late(w, read_from_nobody); }},
      {"stopped", [](World& w) { late(w, [] { ::raise(SIGSTOP); }); }},
      {"dies", [](World& w) { late(w, [] { ::raise(SIGKILL); }); }},
      {"forgets", [](World& w) { late(w, [&] { sleep_for_long(); }); }},
      {"other_order", other_order},
      {"other_count", other_count},
      {"two_communicators", two_communicators},
      {"receive_without_send", receive_without_send},
      {"other_tag", other_tag},
      {"send_without_receive", send_without_receive},
      {"both_receive_first", both_receive_first},
      {"leaves_early", leaves_early},
      {"all_elsewhere", all_elsewhere},
      {"group_of_one_less", group_of_one_less},
      {"another_communicator", another_communicator},
      {"slow",
       [](World& w) {
         for (;;) {
           if (w.rank() == 1) std::this_thread::sleep_for(std::chrono::milliseconds(20));
           w.world.allreduce(w.data).wait();
         }
       }},
  };
  return all;
}

}  // namespace

int main(int argc, char** argv) {
  const auto found = argc == 2 ? scenarios().find(argv[1]) : scenarios().end();
  if (found == scenarios().end()) {
    std::fprintf(stderr, "hang_probe: give a scenario\n");
    return 2;
  }
  World world;
  try {
    found->second(world);
  } catch (const tutti::Error& error) {
    std::fprintf(stderr, "rank %d: %s\n", world.rank(), error.what());
    stay();
  }
}
