#include "tests/support/worlds.hpp"

#include <unistd.h>

#include <atomic>
#include <mutex>
#include <thread>
#include <vector>

#include "tutti/bootstrap.hpp"
#include "tutti/store.hpp"

namespace tutti::testing {

Settings test_settings(const std::string& transport) {
  Settings settings;
  settings.transport = transport;
  settings.timeout = 60;
  settings.tuning = "off";  // ignores rules that were measured on this machine
  return settings;
}

void run_ranks(int size, const Settings& settings, const std::function<void(Communicator& world)>& body) {
  run_ranks(
      size, [&](int) { return settings; }, body);
}

void run_ranks(int size, const std::function<Settings(int rank)>& settings_of,
               const std::function<void(Communicator& world)>& body) {
  static std::atomic<int> jobs{0};
  Bootstrap bootstrap;
  bootstrap.size = bootstrap.local_size = size;
  bootstrap.store = make_local_store();
  const std::string job = "test-" + std::to_string(::getpid()) + "-" + std::to_string(jobs++);
  bootstrap.launcher = "test";
  std::mutex mutex;
  std::string first;
  std::vector<std::thread> threads;
  for (int rank = 0; rank < size; ++rank) {
    threads.emplace_back([&, rank] {
      try {
        Bootstrap mine = bootstrap;
        mine.rank = mine.local_rank = rank;
        mine.settings = settings_of(rank);
        mine.settings.job = job;
        mine.settings.secret = "test";
        Communicator world = Communicator::connect(mine);
        body(world);
      } catch (const std::exception& error) {
        std::lock_guard lock(mutex);
        if (first.empty()) first = "rank " + std::to_string(rank) + ": " + error.what();
      }
    });
  }
  for (auto& thread : threads) thread.join();
  if (!first.empty()) throw std::runtime_error(first);
}

}  // namespace tutti::testing
