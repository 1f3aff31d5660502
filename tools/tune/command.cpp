// `tutti tune`: measures which backend and algorithm is best on this machine and writes rules; or checks the rules.
#include "tools/command.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <filesystem>
#include <fstream>

#include "collectives/route/selector.hpp"
#include "collectives/route/tuning.hpp"
#include "tools/options.hpp"
#include "tools/own_job.hpp"
#include "tools/tune/check.hpp"
#include "tools/tune/network.hpp"
#include "tools/tune/rules.hpp"
#include "transports/core/text_file.hpp"
#include "tutti/provider/provider.hpp"

namespace tutti::tools {
extern const Command tune_command;

namespace {

using namespace tutti::tune;

struct Wanted {
  int ranks = 0;
  double seconds = 45;
  std::string collectives, file, end = "64M";
  bool check = false, network = false;
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

/// Returns rank 0's words on all ranks, so that all ranks create the same backends. Collective.
std::vector<std::string> as_on_the_first(Communicator& world, const std::vector<std::string>& words) {
  std::string text = fmt::format("{}", fmt::join(words, ","));
  text.resize(static_cast<std::size_t>(world.broadcast(static_cast<std::int64_t>(text.size())).wait()));
  world.broadcast(Buffer(text.data(), text.size(), DType::u8)).wait();
  return text.empty() ? std::vector<std::string>() : CLI::detail::split(text, ',');
}

/// Returns the rules of a file for collectives that were not measured now.
std::string others_rules(const std::string& path, const std::vector<Kind>& measured) {
  std::string text;
  for (const std::string& line : read_lines_if_any(path, longest_tuning)) {
    const auto kind = parse_kind(line.substr(0, line.find(':')));
    if (kind && std::ranges::count(measured, *kind) == 0) text += line + '\n';
  }
  return text;
}

/// Writes new `rules` to the file. The file's rules for collectives that are not in `measured` stay.
void write(const std::string& path, const std::string& rules, int ranks, const std::vector<Kind>& measured) {
  const std::string kept = others_rules(path, measured);
  std::error_code error;
  std::filesystem::create_directories(std::filesystem::path(path).parent_path(), error);
  const std::string fresh = path + ".new";  // written beside the old file, which jobs may be reading
  std::ofstream file(fresh);
  file << "# Measured by `tutti tune -np " << ranks << "` (tutti " << version() << ") on " << machine_key() << ".\n"
       << "# Rules as TUTTI_SELECT takes them, one a line: KIND: BYTES ranks .. hosts .. = [BACKEND/]ALGORITHM.\n"
       << "# They come after TUTTI_SELECT and TUTTI_BACKEND, and before the built-in ones. Edit or delete at will.\n"
       << "# The first line is what messages and folding cost, by which plans between hosts are chosen without rules.\n"
       << rules << kept;
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
  if (wanted.check && wanted.network)
    throw Error(Code::invalid, "--network measures the network alone, and --check the rules: give one of them");
  if (wanted.network && !wanted.file.empty())
    throw Error(Code::invalid, "--network prints its line and writes nothing: leave --file out");
  if (wanted.check) return check(world, plan);
  const std::string network = fmt::format("network: {}\n", text_of(measure_network(world)));
  if (world.rank() == 0) fmt::print("{}", network);
  std::fflush(stdout);
  if (wanted.network) return 0;
  const std::vector<Tuned> all = make_rules(world, plan);
  if (world.rank() != 0) return 0;
  const std::string path = wanted.file.empty() ? tuning_file(wanted.settings) : wanted.file;
  if (path.empty()) throw Error(Code::invalid, "there is no home folder to write to; name a file with --file");
  write(path, network + rules_text(all), world.size(), plan.kinds);
  fmt::print("written to {}\n", path);
  return 0;
}

int run(const std::vector<std::string>& arguments) {
  CLI::App app("Measures which backend and algorithm is best for which sizes on this machine, and writes it down.",
               "tutti tune");
  Wanted wanted;
  app.add_option("--np", wanted.ranks, "ranks to start (2); numbers below are measured too")
      ->check(CLI::Range(2, 1024));
  app.add_option("--seconds", wanted.seconds, "how long to measure, about (45)")->check(CLI::Range(1.0, 86400.0));
  app.add_option("-e,--end", wanted.end, "last size in bytes (default 64M)");
  app.add_option("--collectives", wanted.collectives, "only these, comma-separated");
  app.add_option("--file", wanted.file, "where to write, instead of the place that is read by itself");
  app.add_flag("--check", wanted.check,
               "measure the rules that are in force against every other choice; exit code 1 below 0.9");
  app.add_flag("--network", wanted.network,
               "only measure what messages and folding cost, and print it as a line that rules may have");
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
