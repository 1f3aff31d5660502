// `tutti tune`: measures which backend and algorithm is best here, and writes it down as rules; or checks those rules.
#include "tools/command.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <CLI/CLI.hpp>
#include <filesystem>
#include <fstream>

#include "collectives/selector.hpp"
#include "collectives/tuning.hpp"
#include "tools/options.hpp"
#include "tools/own_job.hpp"
#include "tools/tune/check.hpp"
#include "transports/modules.hpp"

namespace tutti::tools {
extern const Command tune_command;

namespace {

using namespace tutti::tune;

constexpr double tolerance = 1.05;  // a candidate within this of the best one is as good
constexpr std::size_t step = 4;     // from one size to the next

struct Wanted {
  int ranks = 0;
  double seconds = 45;
  std::string collectives, file, end = "64M";
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

/// Rank 0's words on all ranks, so that all make the same backends.
std::vector<std::string> as_on_the_first(Communicator& world, const std::vector<std::string>& words) {
  std::string text = fmt::format("{}", fmt::join(words, ","));
  text.resize(static_cast<std::size_t>(world.broadcast(static_cast<std::int64_t>(text.size())).wait()));
  world.broadcast(Buffer(text.data(), text.size(), DType::u8)).wait();
  return text.empty() ? std::vector<std::string>() : CLI::detail::split(text, ',');
}

/// Measures one kind on one number of ranks; where another than the favourite would be chosen, once more, since what
/// disturbs a measurement makes it longer; and between sizes of which different ones are chosen.
Tuned tune_kind(Tuner& tuner, Kind kind, std::vector<std::size_t> sizes, Budget& budget) {
  const std::vector<std::string> targets = tuner.candidates(kind);
  std::vector<Curve> curves;
  for (const std::string& target : targets) curves.push_back({target, {}});
  const auto measure = [&](std::size_t size) { return tuner.time(tuner.case_of(kind, size), targets, budget.next()); };
  const auto insert = [&](std::size_t at, const std::vector<double>& seconds) {
    for (std::size_t i = 0; i < targets.size(); ++i)
      curves[i].seconds.insert(curves[i].seconds.begin() + static_cast<std::ptrdiff_t>(at), seconds[i]);
  };
  for (std::size_t k = 0; k < sizes.size(); ++k) insert(k, measure(sizes[k]));
  const std::vector<std::size_t> again = tuner.as_on_the_first(doubtful(curves, sizes.size(), tolerance));
  for (std::size_t k = again.size(); k < sizes.size(); ++k) budget.skip();
  for (const std::size_t k : again) {
    const std::vector<double> seconds = measure(sizes[k]);
    for (std::size_t i = 0; i < targets.size(); ++i) curves[i].seconds[k] = std::min(curves[i].seconds[k], seconds[i]);
  }
  const std::vector<std::size_t> between = tuner.as_on_the_first(borders(sizes, choose(sizes, curves, tolerance)));
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

std::vector<Tuned> tune_all(Communicator& world, const Plan& plan) {
  Budget budget(plan, world.size(), step);
  std::vector<Tuned> all;
  int before = 0;
  on_each_number_of_ranks(world, plan, [&](Tuner& tuner) {
    const int ranks = tuner.ranks().size();
    for (const Kind kind : plan.kinds) {
      Tuned tuned = tune_kind(tuner, kind, sizes_of(kind, ranks, step, plan.end), budget);
      tuned.ranks_low = before + 1;
      tuned.ranks_high = ranks;
      tuned.several_hosts = tuner.ranks().topology().hosts().count() > 1;
      if (world.rank() == 0) show(tuned, ranks);
      all.push_back(std::move(tuned));
    }
    before = ranks;
  });
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

std::vector<std::string> backends_that_work(const Settings& settings) {
  std::vector<std::string> names;
  for (const std::string& name : provider_names(settings))
    if (const Found found = find_provider(name, settings);
        found.reason.empty() && found.provider->algorithms != nullptr)
      names.push_back(name);
  return names;
}

int run_in_job(const Wanted& wanted) {
  Communicator world = Communicator::from_env(wanted.settings);
  const Plan plan{kinds_of(wanted.collectives), static_cast<std::size_t>(parse_bytes(wanted.end)), wanted.seconds,
                  as_on_the_first(world, backends_that_work(world.settings()))};
  if (world.size() < 2) throw Error(Code::invalid, "nothing can be tuned on one rank; say how many with -np");
  if (wanted.check) return check(world, plan);
  const std::vector<Tuned> all = tune_all(world, plan);
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
  app.add_flag("--check", wanted.check,
               "measure the rules that are in force against every other choice; exit code 1 below 0.9");
  wanted.settings = Settings::from_environment();
  add_settings(app, wanted.settings);
  parse(app, arguments);
  kinds_of(wanted.collectives);
  parse_bytes(wanted.end);
  if (!inside_a_job()) {
    std::vector<std::string> words = {"tune"};
    words.insert(words.end(), arguments.begin(), arguments.end());
    become_job(wanted.ranks > 0 ? wanted.ranks : 2, wanted.settings, words);
  }
  return run_in_job(wanted);
}

}  // namespace

const Command tune_command = {"measure which backend and algorithm is best here, and write it down as rules", run};

}  // namespace tutti::tools
