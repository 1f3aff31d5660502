// Plays a scenario with ranks that are threads.
#include <unistd.h>

#include <condition_variable>
#include <cstdio>
#include <cstdlib>
#include <mutex>
#include <optional>
#include <thread>

#include "tests/chaos/leftovers.hpp"
#include "tests/chaos/player.hpp"
#include "tests/chaos/stage.hpp"
#include "tests/chaos/survival.hpp"
#include "tutti/store.hpp"

namespace tutti::testing {
namespace {

constexpr std::chrono::seconds hang_limit{150};

/// The threads of one scenario.
class Company {
 public:
  explicit Company(const Scenario& scenario)
      : scenario_(scenario), reports_(static_cast<std::size_t>(scenario.processes_in_all())) {}

  std::vector<std::string> run() {
    static int jobs = 0;
    bootstrap_.size = bootstrap_.local_size = scenario_.ranks;
    bootstrap_.store = make_local_store();
    bootstrap_.launcher = "test";
    std::optional<TcpStoreServer> waiting_room;
    scenario_.settings.job = "chaos-" + std::to_string(::getpid()) + "-" + std::to_string(++jobs);
    scenario_.settings.secret = "test";
    if (scenario_.newcomers > 0) {
      waiting_room.emplace("127.0.0.1", 0, scenario_.settings.secret, scenario_.processes_in_all());
      scenario_.settings.store = "tcp://127.0.0.1:" + std::to_string(waiting_room->port());
    }
    std::vector<std::thread> threads;
    for (std::size_t one = 0; one < reports_.size(); ++one)
      threads.emplace_back([this, one] { play_one(static_cast<int>(one)); });
    await();
    for (std::thread& thread : threads) thread.join();
    return judge(scenario_, reports_, std::vector<Fate>(reports_.size()));
  }

 private:
  void play_one(int process) {
    Bootstrap mine = bootstrap_;
    mine.rank = mine.local_rank = process;
    mine.settings = scenario_.settings_of(process);
    if (scenario_.newcomers > 0 && process < scenario_.ranks) mine.commons = commons_of(mine.settings);
    reports_[static_cast<std::size_t>(process)] = play(scenario_, process, mine, gate_);
    const std::lock_guard lock(mutex_);
    ++ended_;
    changed_.notify_all();
  }

  void await() {
    std::unique_lock lock(mutex_);
    if (changed_.wait_for(lock, hang_limit, [this] { return ended_ == reports_.size(); })) return;
    std::printf("seed %llu: hangs; %zu of %zu ranks have ended (%s)\n", static_cast<unsigned long long>(scenario_.seed),
                ended_, reports_.size(), scenario_.text().c_str());
    for (const Report& one : reports_)
      for (const std::string& what : one.wrong) std::printf("  %s\n", what.c_str());
    std::fflush(stdout);
    if (std::getenv("TUTTI_TEST_HANG") != nullptr) ::pause();  // for a debugger
    ::_exit(1);
  }

  Scenario scenario_;
  Bootstrap bootstrap_;
  Gate gate_{};
  std::vector<Report> reports_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::size_t ended_ = 0;
};

}  // namespace

std::vector<std::string> play_in_threads(const Scenario& scenario) {
  const Holdings before = holdings();
  std::vector<std::string> wrong = Company(scenario).run();
  if (std::string left = left_beyond(before); !left.empty()) wrong.push_back(std::move(left));
  return wrong;
}

}  // namespace tutti::testing
