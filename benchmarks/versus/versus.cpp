// The rounds: every implementation runs once per round as a job of its own; ratios are formed within a round.
#include "benchmarks/versus/versus.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <random>
#include <sstream>
#include <system_error>
#include <thread>

#include "benchmarks/versus/comparison.hpp"
#include "benchmarks/versus/flag.hpp"
#include "benchmarks/versus/peer_list.hpp"
#include "tools/bench/board.hpp"
#include "tools/bench/lines.hpp"
#include "tools/command.hpp"
#include "transports/core/host.hpp"
#include "tutti/status.hpp"

namespace tutti::bench {
namespace {

constexpr double least_patience = 60;  // seconds without output after which a job is ended; some libraries start slowly

/// A job that runs in each round: a sweep, or the part of a sweep to which some settings apply.
struct Job {
  Command command;
  bool wants_board = false;  ///< needs board=PATH, memory for barriers and times; tutti makes its own
};

struct Contestant {
  Series series;
  std::vector<Job> jobs;
  std::string failure;
};

/// The arguments for tutti itself: those that are not about the comparison.
std::vector<std::string> own_arguments(const std::vector<std::string>& arguments) {
  const auto is_one_of = [](const std::string& flag, std::initializer_list<std::string_view> flags) {
    return std::find(flags.begin(), flags.end(), flag) != flags.end();
  };
  std::vector<std::string> kept;
  for (std::size_t i = 0; i < arguments.size(); ++i) {
    const std::string flag = arguments[i].substr(0, arguments[i].find('='));
    if (is_one_of(flag, {"--plot", "--verbose", "--in-place", "--no-in-place"})) continue;
    const bool dropped = is_one_of(flag, {"--versus", "--peer", "--variants", "--rounds", "--format", "--np", "-np",
                                          "--transport", "--flag-ns", "--csv", "--json", "--svg"});
    if (!dropped) kept.push_back(arguments[i]);
    if (dropped && flag == arguments[i]) ++i;
  }
  return kept;
}

std::string text_of(const Environment& environment) {
  std::string text;
  for (const auto& [variable, value] : environment) text += (text.empty() ? "" : " ") + variable + "=" + value;
  return text;
}

int ranks_of(const Request& request) { return request.ranks > 0 ? request.ranks : 2; }

/// An empty `transport` leaves the choice to tutti, as does a --backend without --transport.
Contestant ourselves(const Request& request, const std::vector<std::string>& arguments, std::string transport) {
  Contestant contestant;
  std::string way = transport;
  if (request.settings.sources.contains("backend")) {
    way = request.settings.backend;
    if (!request.settings.sources.contains("transport")) transport.clear();
  }
  contestant.series.name = way.empty() ? "tutti" : "tutti " + way;
  contestant.series.version = "tutti " + std::string(tools::version());
  if (!request.algorithm.empty()) contestant.series.settings = "--algorithm " + request.algorithm;
  if (request.memory != "ordinary")
    contestant.series.settings += (contestant.series.settings.empty() ? "--memory " : " --memory ") + request.memory;
  Command command{{std::filesystem::read_symlink("/proc/self/exe").string(), "bench"}, {}};
  for (const std::string& argument : own_arguments(arguments)) command.words.push_back(argument);
  std::vector<std::string> words = {"-np", std::to_string(ranks_of(request)), "--format", "csv", "--no-in-place"};
  if (!transport.empty()) words.insert(words.end(), {"--transport", transport});
  command.words.insert(command.words.end(), words.begin(), words.end());
  contestant.jobs.push_back({command, false});
  return contestant;
}

Contestant opponent(const Request& request, const Selection& selection) {
  Contestant contestant;
  contestant.series.name = selection.label;
  contestant.series.version = selection.version;
  const auto add = [&](const Sweep& sweep, bool full) {
    std::vector<std::string> words = words_of(sweep);
    contestant.jobs.push_back({selection.command(ranks_of(request), words, full), true});
  };
  Sweep sweep = request;
  sweep.in_place = false;
  const std::int64_t from = selection.variant.from;
  // these sizes run without the variant's settings
  for (const std::int64_t bytes : sizes_of(sweep)) sweep.skip += bytes < from;
  Sweep lower = request;
  lower.in_place = false;
  lower.last = std::min(sweep.last, from - 1);
  if (sweep.skip > 0) add(lower, false);
  if (!sizes_of(sweep).empty()) add(sweep, true);
  Environment own = selection.variant.environment;
  if (ranks_of(request) > usable_cores())
    own.insert(selection.variant.crowded.begin(), selection.variant.crowded.end());
  for (const auto& [variable, value] : selection.peer.environment) own.emplace(variable, value);
  contestant.series.settings = (from > 0 ? fmt::format("from {} bytes: ", from) : std::string()) + text_of(own);
  return contestant;
}

/// The contestants: tutti first, once for each transport that a peer is compared with. Peers that cannot be run are
/// reported.
std::vector<Contestant> contestants(const Request& request, const std::vector<std::string>& arguments, bool& failed) {
  const PeerList peers(request);
  const std::string asked = request.settings.sources.contains("transport") ? request.settings.transport : "";
  std::vector<Selection> selections;
  for (const std::string& chosen : peers.chosen()) try {
      selections.push_back(peers.select(chosen));
    } catch (const Error& error) {
      fmt::print(stderr, "tutti bench: {}: {}\n", chosen, error.what());
      failed = true;
    }
  if (selections.empty() && !peers.chosen().empty()) return {};
  std::vector<std::string> transports;
  const auto transport_of = [&](const Selection& one) { return asked.empty() ? one.variant.transport : asked; };
  for (const Selection& one : selections)
    if (std::find(transports.begin(), transports.end(), transport_of(one)) == transports.end())
      transports.push_back(transport_of(one));
  if (selections.empty()) transports.push_back(asked);
  std::vector<Contestant> all;
  for (const std::string& transport : transports) all.push_back(ourselves(request, arguments, transport));
  for (const Selection& one : selections) {
    all.push_back(opponent(request, one));
    const auto at = std::find(transports.begin(), transports.end(), transport_of(one));
    all.back().series.against = static_cast<int>(at - transports.begin());
  }
  return all;
}

/// The lines that --explain printed.
std::vector<std::string> notes_in(const std::string& text) {
  std::vector<std::string> notes;
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);)
    if (line.starts_with("# ")) notes.push_back(line.substr(2));
  return notes;
}

/// Runs one contestant once. Sets its `failure` if something is wrong.
void run_once(Contestant& contestant, const Request& request) {
  const int ranks = ranks_of(request);
  std::map<std::size_t, double> results;
  std::map<std::size_t, std::vector<double>> extras;
  for (const Job& job : contestant.jobs) {
    Command command = job.command;
    SharedMemory board;
    if (job.wants_board) {
      board = make_shared_memory(ranks);
      command.words.push_back("board=" + board.path);
    }
    const Outcome outcome = run_to_end(command, std::max(request.settings.timeout, least_patience), request.verbose);
    if (board.fd >= 0) close(board.fd);
    if (!job.wants_board && request.settings.explain == "on") contestant.series.notes = notes_in(outcome.err);
    for (const Line& line : parse_csv(outcome.out)) {
      if (line.extras.size() != extra_names(request).size()) continue;  // not a line of this sweep
      results[line.bytes] = line.median_us;
      extras[line.bytes] = line.extras;
      if (line.ok || !contestant.failure.empty()) continue;
      contestant.failure = fmt::format("WRONG RESULTS: {} of {} bytes on {} ranks", line.collective, line.bytes, ranks);
    }
    if (!contestant.failure.empty()) return;
    if (!outcome.ok()) {
      contestant.failure = fmt::format("cannot be measured ({}); --verbose shows all that it says", outcome.why());
      return;
    }
  }
  std::size_t expected = 0;
  for (const Case& what : cases(request, ranks)) {
    expected += results.contains(what.bytes());
    contestant.series.rounds[what.bytes()].push_back(results.contains(what.bytes()) ? results[what.bytes()] : 0);
    contestant.series.extras[what.bytes()].push_back(extras[what.bytes()]);
  }
  if (expected != cases(request, ranks).size() || expected != results.size())
    contestant.failure = "did not measure the sizes that it was asked for; --verbose shows what it says";
}

/// Removes the peers that have failed; returns false if one of tutti's own runs has failed.
bool without_failures(std::vector<Contestant>& all) {
  for (const Contestant& one : all)
    if (one.series.against < 0 && !one.failure.empty()) return false;
  // tutti's series come first, so their indices stay valid
  std::erase_if(all, [](const Contestant& one) { return !one.failure.empty(); });
  return true;
}

using Printer = void (*)(const Comparison&, std::FILE*);

/// Opens the files before the measurement, so that a wrong path fails early. Their contents are kept until there is a
/// new result.
std::vector<std::pair<std::FILE*, Printer>> open_files(const Request& request) {
  std::vector<std::pair<std::FILE*, Printer>> files;
  const auto add = [&](const std::string& path, Printer printer) {
    if (path.empty()) return;
    const int fd = open(path.c_str(), O_WRONLY | O_CREAT | O_CLOEXEC, 0666);
    std::FILE* file = fd < 0 ? nullptr : fdopen(fd, "w");
    if (!file) throw Error(Code::invalid, "cannot write " + path + ": " + std::generic_category().message(errno));
    files.emplace_back(file, printer);
  };
  add(request.csv_file, print_csv);
  add(request.json_file, print_json);
  add(request.svg_file, [](const Comparison& what, std::FILE* to) { print_svg(plot_of(what), to); });
  return files;
}

void show(const Comparison& comparison, const Request& request, std::vector<std::pair<std::FILE*, Printer>> files) {
  files.emplace_back(stdout, request.format == "csv" ? print_csv : request.format == "json" ? print_json : print_table);
  if (request.plot)
    files.emplace_back(stdout, [](const Comparison& what, std::FILE* to) { print_plot(plot_of(what), to); });
  for (const auto& [file, print] : files) {
    if (file != stdout && ftruncate(fileno(file), 0) != 0 && errno != EINVAL)  // a pipe cannot be truncated
      throw Error(Code::resource, "cannot overwrite a result: " + std::generic_category().message(errno));
    print(comparison, file);
    if (std::fflush(file) != 0) throw Error(Code::resource, "cannot write all of the result");
    if (file != stdout) std::fclose(file);
  }
}

/// Runs all contestants once, in random order; returns false, after a report, if one has failed.
bool run_round(std::vector<Contestant>& all, const Request& request, std::string& names) {
  static std::mt19937 shuffler{std::random_device{}()};
  std::vector<std::size_t> order(all.size());
  for (std::size_t i = 0; i < order.size(); ++i) order[i] = i;
  std::shuffle(order.begin(), order.end(), shuffler);
  bool right = true;
  for (const std::size_t i : order) {
    Contestant& one = all[i];
    names += (names.empty() ? "" : ", ") + one.series.name;
    run_once(one, request);
    if (!one.failure.empty()) fmt::print(stderr, "tutti bench: {}: {}\n", one.series.name, one.failure);
    right = right && one.failure.empty();
  }
  return right;
}

/// flag_ns() before a round. With a limit, waits for about 30 s at most until the limit is met.
double flag_before_round(const Request& request) {
  double flag = flag_ns();
  for (int i = 0; i < 60 && request.flag_limit > 0 && flag > request.flag_limit; ++i) {
    std::this_thread::sleep_for(std::chrono::milliseconds(500));
    flag = flag_ns();
  }
  return flag;
}

/// Returns false if one of tutti's own runs has failed.
bool run_rounds(std::vector<Contestant>& all, const Request& request, Comparison& comparison, bool& failed) {
  const int most = request.flag_limit > 0 ? 4 * request.rounds : request.rounds;
  comparison.flag_limit = request.flag_limit;
  for (int round = 0, steady = 0; round < most && steady < request.rounds; ++round) {
    std::string names;
    const double before = flag_before_round(request);
    failed = !run_round(all, request, names) || failed;
    const double after = flag_ns();
    comparison.flags.push_back({before, after});
    const bool is_steady = comparison.steady(static_cast<std::size_t>(round));
    steady += is_steady;
    if (request.format == "human")
      fmt::print("# round {}: {}; flag {:.0f} ns, then {:.0f}{}\n", round + 1, names, before, after,
                 is_steady ? "" : ": not steady");
    std::fflush(stdout);
    if (!without_failures(all)) return false;
  }
  return true;
}

}  // namespace

int compare(const Request& request, const std::vector<std::string>& arguments) {
  bool failed = false;
  Comparison comparison;
  comparison.sweep = request;
  comparison.ranks = ranks_of(request);
  comparison.cores = usable_cores();
  if (getloadavg(&comparison.load, 1) != 1) comparison.load = 0;
  std::vector<Contestant> all = contestants(request, arguments, failed);
  if (all.empty()) return 1;
  auto files = open_files(request);
  if (!run_rounds(all, request, comparison, failed)) return 1;
  for (Contestant& one : all) comparison.all.push_back(std::move(one.series));
  show(comparison, request, std::move(files));
  return failed ? 1 : 0;
}

int list_peers(const Request& request) {
  fmt::print("{}", PeerList(request).describe());
  return 0;
}

}  // namespace tutti::bench
