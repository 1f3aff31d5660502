// Plays a scenario with ranks that are threads.
#include <unistd.h>

#include <condition_variable>
#include <cstdio>
#include <cstdlib>
#include <mutex>
#include <thread>

#include "tests/chaos/leftovers.hpp"
#include "tests/chaos/player.hpp"
#include "tests/chaos/stage.hpp"
#include "tutti/store.hpp"

namespace tutti::testing {
namespace {

constexpr std::chrono::seconds hang_limit{150};

/// The threads of one scenario.
class Company {
 public:
  explicit Company(const Scenario& scenario)
      : scenario_(scenario), reports_(static_cast<std::size_t>(scenario.ranks)) {}

  std::vector<std::string> run() {
    static int jobs = 0;
    bootstrap_.size = bootstrap_.local_size = scenario_.ranks;
    bootstrap_.store = make_local_store();
    bootstrap_.launcher = "test";
    job_ = "chaos-" + std::to_string(::getpid()) + "-" + std::to_string(++jobs);
    std::vector<std::thread> threads;
    for (int rank = 0; rank < scenario_.ranks; ++rank) threads.emplace_back([this, rank] { play_rank(rank); });
    await();
    for (std::thread& thread : threads) thread.join();
    return judge(scenario_, reports_, std::vector<Fate>(reports_.size()));
  }

 private:
  void play_rank(int rank) {
    Bootstrap mine = bootstrap_;
    mine.rank = mine.local_rank = rank;
    mine.settings = scenario_.settings_of(rank);
    mine.settings.job = job_;
    mine.settings.secret = "test";
    reports_[static_cast<std::size_t>(rank)] = play(scenario_, mine, gate_);
    const std::lock_guard lock(mutex_);
    ++ended_;
    changed_.notify_all();
  }

  void await() {
    std::unique_lock lock(mutex_);
    if (changed_.wait_for(lock, hang_limit, [this] { return ended_ == scenario_.ranks; })) return;
    std::printf("seed %llu: hangs; %d of %d ranks have ended (%s)\n", static_cast<unsigned long long>(scenario_.seed),
                ended_, scenario_.ranks, scenario_.text().c_str());
    std::fflush(stdout);
    if (std::getenv("TUTTI_TEST_HANG") != nullptr) ::pause();  // for a debugger
    ::_exit(1);
  }

  const Scenario& scenario_;
  Bootstrap bootstrap_;
  std::string job_;
  Gate gate_{};
  std::vector<Report> reports_;
  std::mutex mutex_;
  std::condition_variable changed_;
  int ended_ = 0;
};

}  // namespace

std::vector<std::string> play_in_threads(const Scenario& scenario) {
  const Holdings before = holdings();
  std::vector<std::string> wrong = Company(scenario).run();
  if (std::string left = left_beyond(before); !left.empty()) wrong.push_back(std::move(left));
  return wrong;
}

}  // namespace tutti::testing
