// Plays scenarios of faults from seeds, and says which of them went wrong.
//
//   tutti_chaos N [--seed S] [--processes M] [--say]
//
// N scenarios have ranks that are threads, and M have ranks that are processes. The first has the seed S, each further
// one the next number; without --seed a seed is drawn. `--say` prints every scenario before it is played. Exits with 1
// if one of them failed.
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "tests/chaos/stage.hpp"
#include "transports/core/random.hpp"
#include "tutti/clock.hpp"

namespace tutti::testing {
namespace {

struct Wanted {
  std::uint64_t in_threads = 0, in_processes = 0, seed = 0;
  bool has_seed = false, says = false;
};

[[noreturn]] void refuse(const std::string& why) {
  std::fprintf(stderr, "tests/chaos/run: %s; say N [--seed S] [--processes M] [--say]\n", why.c_str());
  std::exit(2);
}

std::uint64_t number(const std::vector<std::string>& words, std::size_t at) {
  const std::string text = at < words.size() ? words[at] : "";
  char* end = nullptr;
  const std::uint64_t value = std::strtoull(text.c_str(), &end, 10);
  if (text.empty() || *end != '\0' || text[0] == '-') refuse("'" + text + "' is no number");
  return value;
}

Wanted parse(const std::vector<std::string>& words) {
  Wanted wanted;
  for (std::size_t i = 0; i < words.size(); ++i) {
    if (words[i] == "--seed")
      wanted.seed = number(words, ++i), wanted.has_seed = true;
    else if (words[i] == "--processes")
      wanted.in_processes = number(words, ++i);
    else if (words[i] == "--say")
      wanted.says = true;
    else if (i == 0)
      wanted.in_threads = number(words, i);
    else
      refuse("there is no " + words[i]);
  }
  if (wanted.in_threads + wanted.in_processes == 0) refuse("there is nothing to play");
  return wanted;
}

/// Plays scenarios one after the other, and counts.
class Series {
 public:
  explicit Series(const Wanted& wanted) : wanted_(wanted) {}

  void play(std::uint64_t seed, bool processes) {
    const Scenario scenario = draw_scenario(seed, processes);
    if (wanted_.says) std::printf("seed %llu: %s\n", static_cast<unsigned long long>(seed), scenario.text().c_str());
    std::fflush(stdout);
    const std::vector<std::string> wrong = processes ? play_in_processes(scenario) : play_in_threads(scenario);
    if (wrong.empty()) return;
    ++failed_;
    for (const std::string& what : wrong)
      std::printf("seed %llu: %s\n", static_cast<unsigned long long>(seed), what.c_str());
    std::printf("seed %llu: it was %s; again: tests/chaos/run %s --seed %llu\n", static_cast<unsigned long long>(seed),
                scenario.text().c_str(), processes ? "0 --processes 1" : "1", static_cast<unsigned long long>(seed));
    std::fflush(stdout);
  }
  std::uint64_t failed() const { return failed_; }

 private:
  const Wanted& wanted_;
  std::uint64_t failed_ = 0;
};

// What a process makes once, such as threads that never end, is made before anything is counted.
void warm_up() {
  for (const char* transport : {"inproc", "shm", "tcp"}) {
    Scenario scenario;
    scenario.transport = scenario.settings.transport = transport;
    scenario.settings.tuning = scenario.settings.log = "off";
    scenario.groups.push_back({GroupPlan::By::world, 0, {0, 1}, {}});
    Act act;
    act.calls.emplace_back();
    scenario.acts.push_back(std::move(act));
    play_in_threads(scenario);
  }
}

int run(Wanted wanted) {
  if (!wanted.has_seed) {
    fill_random(&wanted.seed, sizeof wanted.seed);
    wanted.seed %= 1'000'000'000'000;
  }
  std::printf("seed %llu\n", static_cast<unsigned long long>(wanted.seed));
  std::fflush(stdout);
  const Deadline began = Clock::now();
  ::setenv("TUTTI_JOIN", "1", 1);  // for newcomers that are threads; all else is in their settings
  if (wanted.in_threads > 0) warm_up();
  Series series(wanted);
  for (std::uint64_t i = 0; i < wanted.in_threads; ++i) series.play(wanted.seed + i, false);
  for (std::uint64_t i = 0; i < wanted.in_processes; ++i) series.play(wanted.seed + i, true);
  const double seconds = std::chrono::duration<double>(Clock::now() - began).count();
  std::printf("%llu scenarios in one process, %llu with processes, %llu failed; %.1f s, %.1f a second\n",
              static_cast<unsigned long long>(wanted.in_threads), static_cast<unsigned long long>(wanted.in_processes),
              static_cast<unsigned long long>(series.failed()), seconds,
              static_cast<double>(wanted.in_threads + wanted.in_processes) / seconds);
  return series.failed() == 0 ? 0 : 1;
}

}  // namespace
}  // namespace tutti::testing

int main(int argc, char** argv) {
  const std::vector<std::string> words(argv + 1, argv + argc);
  if (!words.empty() && words[0] == "--rank") return tutti::testing::play_one_rank({words.begin() + 1, words.end()});
  return tutti::testing::run(tutti::testing::parse(words));
}
