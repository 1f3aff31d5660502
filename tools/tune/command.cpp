// `tutti tune`: measures which backend and algorithm is best here, and writes it down as rules; or checks those rules.
#include "tools/command.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <numeric>

#include "collectives/selector.hpp"
#include "collectives/tuning.hpp"
#include "tools/options.hpp"
#include "tools/own_job.hpp"
#include "tools/tune/tuner.hpp"
#include "transports/core/clock.hpp"
#include "transports/core/host.hpp"
#include "transports/core/log.hpp"
#include "transports/modules.hpp"

namespace tutti::tools {
extern const Command tune_command;

namespace {

using namespace tutti::tune;

constexpr double tolerance = 1.05;  // a candidate within this of the best one is as good
constexpr std::size_t smallest = 8;
constexpr std::size_t tuned_step = 4, checked_step = 2;  // from one size to the next

struct Wanted {
  int ranks = 0;
  double seconds = 45;
  std::string collectives, file, end = "64M";
  std::vector<std::string> backends;  ///< all that work on rank 0
  bool check = false;
  Settings settings;
};

std::vector<Kind> kinds_of(const std::string& list) {
  std::vector<Kind> kinds;
  if (list.empty())
    for (int k = 0; k <= static_cast<int>(Kind::barrier); ++k) kinds.push_back(static_cast<Kind>(k));
  for (const std::string& word : CLI::detail::split(list, ',')) {
    if (list.empty()) break;
    const auto kind = parse_kind(word);
    if (!kind || *kind == Kind::send)
      throw Error(Code::invalid, "--collectives: there is no collective '" + word + "'");
    kinds.push_back(*kind);
  }
  return kinds;
}

/// 2, 4, 8, ... and all of them.
std::vector<int> numbers_of_ranks(int all) {
  std::vector<int> numbers;
  for (int n = 2; n < all; n *= 2) numbers.push_back(n);
  if (all > 1) numbers.push_back(all);
  return numbers;
}

std::vector<std::size_t> sizes_of(Kind kind, int ranks, std::size_t factor, const std::string& end) {
  if (kind == Kind::barrier) return {0};
  const bool blocks = kind != Kind::allreduce && kind != Kind::reduce && kind != Kind::broadcast;
  const auto largest = static_cast<std::size_t>(parse_bytes(end));
  return grid(smallest, std::max(smallest, blocks ? largest / static_cast<std::size_t>(ranks) : largest), factor);
}

/// What stands for the time until the end: seconds that are left are shared among the points that are left.
class Budget {
 public:
  Budget(double seconds, int points) : until_(deadline_in(Seconds(seconds))), points_(points) {}
  double next() { return std::max(0.0, Seconds(until_ - Clock::now()).count()) / std::max(1, points_--); }
  void skip() { --points_; }
  void more(std::size_t points) { points_ += static_cast<int>(points); }

 private:
  Deadline until_;
  int points_;
};

std::string as_time(double seconds) {
  if (!std::isfinite(seconds)) return "-";
  return seconds < 1e-3 ? fmt::format("{:.1f} us", seconds * 1e6) : fmt::format("{:.2f} ms", seconds * 1e3);
}

/// The communicator of the first `n` ranks, with the backends that can be made for it.
std::optional<Communicator> first_ranks(Communicator& world, int n, std::vector<std::string>& backends) {
  std::vector<int> ranks(static_cast<std::size_t>(n));
  std::iota(ranks.begin(), ranks.end(), 0);
  auto group = world.subgroup(ranks);
  if (!group) return group;
  std::erase_if(backends, [&](const std::string& name) {
    try {
      group->use_backend(name);
      return false;
    } catch (const Error& error) {
      const bool expected = find_provider(name, world.settings()).provider->make_backend == nullptr;
      if (world.rank() == 0) log(expected ? LogLevel::info : LogLevel::warn, error.what());
      return true;
    }
  });
  return group;
}

/// Those that do not measure wait for as long as it takes.
void wait_for_the_first(Communicator& world, const Wanted& wanted) {
  world.barrier({.timeout = 2 * wanted.seconds + world.settings().timeout}).wait();
}

/// Rank 0's words on all ranks, so that all make the same backends.
std::vector<std::string> as_on_the_first(Communicator& world, const std::vector<std::string>& words) {
  std::string text = fmt::format("{}", fmt::join(words, ","));
  text.resize(static_cast<std::size_t>(world.broadcast(static_cast<std::int64_t>(text.size())).wait()));
  world.broadcast(Buffer(text.data(), text.size(), DType::u8)).wait();
  return text.empty() ? std::vector<std::string>() : CLI::detail::split(text, ',');
}

int points(const std::vector<Kind>& kinds, int world, std::size_t factor, const std::string& end) {
  std::size_t sum = 0;
  for (const int n : numbers_of_ranks(world))
    for (const Kind kind : kinds) sum += sizes_of(kind, n, factor, end).size();
  return static_cast<int>(sum);
}

/// Measures one kind on one number of ranks; where another than the favourite would be chosen, once more, since what
/// disturbs a measurement makes it longer; and between sizes of which different ones are chosen.
Tuned tune_kind(Tuner& tuner, Kind kind, const std::vector<std::string>& targets, std::vector<std::size_t> sizes,
                Budget& budget) {
  std::vector<Curve> curves;
  for (const std::string& target : targets) curves.push_back({target, {}});
  const auto measure = [&](std::size_t size) { return tuner.time(tuner.case_of(kind, size), targets, budget.next()); };
  const auto insert = [&](std::size_t at, const std::vector<double>& seconds) {
    for (std::size_t i = 0; i < targets.size(); ++i)
      curves[i].seconds.insert(curves[i].seconds.begin() + static_cast<std::ptrdiff_t>(at), seconds[i]);
  };
  for (std::size_t k = 0; k < sizes.size(); ++k) insert(k, measure(sizes[k]));
  const std::vector<bool> again = doubtful(curves, sizes.size(), tolerance);
  for (std::size_t k = 0; k < sizes.size(); ++k) {
    if (!again[k]) {
      budget.skip();
      continue;
    }
    const std::vector<double> seconds = measure(sizes[k]);
    for (std::size_t i = 0; i < targets.size(); ++i) curves[i].seconds[k] = std::min(curves[i].seconds[k], seconds[i]);
  }
  const std::vector<std::size_t> between = borders(sizes, choose(sizes, curves, tolerance));
  budget.more(between.size());
  for (const std::size_t size : between) {
    const auto behind = std::ranges::lower_bound(sizes, size);
    insert(static_cast<std::size_t>(behind - sizes.begin()), measure(size));
    sizes.insert(behind, size);
  }
  return {kind, 0, 0, false, choose(sizes, curves, tolerance)};
}

void show(const Tuned& tuned, int ranks) {
  std::string line;
  for (const Range& range : tuned.ranges)
    line += fmt::format("{}{}{}", line.empty() ? "" : fmt::format(", from {} on ", range.low), range.target, "");
  fmt::print("{:<15} {:>4} ranks  {}\n", name(tuned.kind), ranks, line);
  std::fflush(stdout);
}

std::vector<Tuned> tune_all(Communicator& world, const Wanted& wanted) {
  const std::vector<Kind> kinds = kinds_of(wanted.collectives);
  Budget budget(wanted.seconds, 2 * points(kinds, world.size(), tuned_step, wanted.end));
  std::vector<Tuned> all;
  int before = 0;
  for (const int n : numbers_of_ranks(world.size())) {
    std::vector<std::string> backends = wanted.backends;
    if (auto group = first_ranks(world, n, backends)) {
      Tuner tuner(*group, backends);
      for (const Kind kind : kinds) {
        Tuned tuned = tune_kind(tuner, kind, candidates(kind, *group, backends),
                                sizes_of(kind, n, tuned_step, wanted.end), budget);
        tuned.ranks_low = before + 1;
        tuned.ranks_high = n;
        tuned.several_hosts = group->topology().hosts().count() > 1;
        if (world.rank() == 0) show(tuned, n);
        all.push_back(std::move(tuned));
      }
    }
    wait_for_the_first(world, wanted);
    before = n;
  }
  return all;
}

void write(const std::string& path, const std::vector<Tuned>& all, int ranks) {
  std::error_code error;
  std::filesystem::create_directories(std::filesystem::path(path).parent_path(), error);
  const std::string fresh = path + ".new";  // jobs may be reading the old one
  std::ofstream file(fresh);
  file << "# Measured by `tutti tune -np " << ranks << "` (tutti " << version() << ") on " << machine_key() << ".\n"
       << "# Rules as TUTTI_SELECT takes them, one a line: KIND: BYTES ranks .. hosts .. = [BACKEND/]ALGORITHM.\n"
       << "# They come after TUTTI_SELECT and TUTTI_BACKEND, and before the built-in ones. Edit or delete at will.\n"
       << rules_text(all);
  if (file.flush()) std::filesystem::rename(fresh, path, error);
  if (!file || error) throw Error(Code::resource, "cannot write " + path + "; give another file with --file");
}

/// One size: what the rules choose, and the best of all other choices.
struct Compared {
  std::string chosen, other;
  double ours = 0, best = INFINITY;  ///< infinite: there is no other, or all are far behind
  bool again = false;                ///< these are the times of the second measurement
  double ratio() const { return best / ours; }
};

/// What looks too slow is measured anew, and that counts: among hundreds of sizes some are disturbed, while what is
/// slow is so the second time too.
Compared compare(Tuner& tuner, const bench::Case& what, std::vector<std::string> others, Budget& budget) {
  Compared compared;
  compared.chosen = tuner.chosen(what);
  std::erase(others, compared.chosen);
  std::vector<std::string> targets = others;
  targets.emplace_back();  // what the rules choose
  const auto measure = [&] {
    const std::vector<double> seconds = tuner.time(what, targets, budget.next());
    compared.ours = seconds.back();
    for (std::size_t i = 0; i < others.size(); ++i)
      if (i == 0 || seconds[i] < compared.best) compared.best = seconds[i], compared.other = others[i];
  };
  measure();
  compared.again = compared.ratio() * tolerance < 1;
  if (compared.again)
    measure();
  else
    budget.skip();
  return compared;
}

/// How the rules do against each single choice: the best of them / ours, at each size.
double check_all(Communicator& world, const Wanted& wanted) {
  const std::vector<Kind> kinds = kinds_of(wanted.collectives);
  Budget budget(wanted.seconds, 2 * points(kinds, world.size(), checked_step, wanted.end));
  double least = 1;  // what the rules choose is a single choice too
  for (const int n : numbers_of_ranks(world.size())) {
    std::vector<std::string> backends = wanted.backends;
    if (auto group = first_ranks(world, n, backends)) {
      Tuner tuner(*group, backends);
      for (const Kind kind : kinds) {
        const std::vector<std::string> all = candidates(kind, *group, backends);
        for (const std::size_t size : sizes_of(kind, n, checked_step, wanted.end)) {
          const Compared compared = compare(tuner, tuner.case_of(kind, size), all, budget);
          least = std::min(least, compared.ratio());
          if (world.rank() == 0)
            fmt::print("{:<15} {:>4} ranks {:>10} B  ours {:>10} {:<20} best other {:>10} {:<20} ratio {:.2f}{}\n",
                       name(kind), n, size, as_time(compared.ours), compared.chosen, as_time(compared.best),
                       compared.other, compared.ratio(), compared.again ? " (measured again)" : "");
        }
      }
    }
    wait_for_the_first(world, wanted);
  }
  return least;
}

std::vector<std::string> backends_that_work(const Settings& settings) {
  std::vector<std::string> names;
  for (const std::string& name : provider_names(settings))
    if (const Found found = find_provider(name, settings);
        found.reason.empty() && found.provider->algorithms != nullptr)
      names.push_back(name);
  return names;
}

int run_in_job(Wanted wanted) {
  Communicator world = Communicator::from_env(wanted.settings);
  wanted.backends = as_on_the_first(world, backends_that_work(world.settings()));
  if (world.size() < 2) throw Error(Code::invalid, "nothing can be tuned on one rank; say how many with -np");
  if (wanted.check) {
    const double least = check_all(world, wanted);
    if (world.rank() == 0) fmt::print("least ratio of the best single choice / ours: {:.2f}\n", least);
    return 0;
  }
  const std::vector<Tuned> all = tune_all(world, wanted);
  if (world.rank() != 0) return 0;
  const std::string path = wanted.file.empty() ? tuning_file(wanted.settings) : wanted.file;
  if (path.empty()) throw Error(Code::invalid, "there is no home folder to write to; name a file with --file");
  write(path, all, world.size());
  fmt::print("written to {}\n", path);
  return 0;
}

int run(const std::vector<std::string>& arguments) {
  CLI::App app("Measures which backend and algorithm is best for which sizes on this machine, and writes it down.",
               "tutti tune");
  Wanted wanted;
  app.add_option("--np", wanted.ranks, "ranks to start; numbers below are measured too")->check(CLI::Range(2, 1024));
  app.add_option("--seconds", wanted.seconds, "how long to measure")->check(CLI::Range(1.0, 86400.0));
  app.add_option("-e,--end", wanted.end, "last size in bytes (default 64M)");
  app.add_option("--collectives", wanted.collectives, "only these, comma-separated");
  app.add_option("--file", wanted.file, "where to write, instead of the place that is read by itself");
  app.add_flag("--check", wanted.check, "measure the rules that are in force against every single choice");
  wanted.settings = Settings::from_environment();
  add_settings(app, wanted.settings);
  parse(app, arguments);
  kinds_of(wanted.collectives);
  parse_bytes(wanted.end);
  if (!inside_a_job()) {
    std::vector<std::string> flags, words = {"tune"};
    if (!wanted.settings.backend.empty()) flags = {"--backend", wanted.settings.backend};
    words.insert(words.end(), arguments.begin(), arguments.end());
    become_job(wanted.ranks > 0 ? wanted.ranks : 2, flags, words);
  }
  return run_in_job(wanted);
}

}  // namespace

const Command tune_command = {"measure which backend and algorithm is best here, and write it down as rules", run};

}  // namespace tutti::tools
