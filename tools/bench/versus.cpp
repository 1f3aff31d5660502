// `tutti bench --versus`: runs programs that print csv, and forms ratios within each round.
#include "tools/bench/versus.hpp"

#include <fmt/format.h>
#include <sys/wait.h>

#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <map>
#include <random>

#include "tools/bench/report.hpp"
#include "transports/core/status.hpp"

namespace tutti::bench {
namespace {

struct Contestant {
  std::string name;                                   ///< "openmpi", or "tutti shm"
  std::vector<std::string> command;                   ///< prints csv
  std::vector<std::map<std::size_t, double>> rounds;  ///< bytes -> median seconds x 1e6
};

struct Pair {
  std::size_t ours, peer;  ///< indices
};

std::filesystem::path self() { return std::filesystem::read_symlink("/proc/self/exe"); }

std::string find_peer(const std::string& name) {
  const auto folder = self().parent_path();
  std::string list;
  for (const auto& place : {folder / "bench-peers", folder.parent_path() / "libexec/tutti/bench-peers"}) {
    std::error_code ignored;
    if (std::filesystem::exists(place / name, ignored)) return place / name;
    for (const auto& entry : std::filesystem::directory_iterator(place, ignored))
      list += (list.empty() ? "" : ", ") + entry.path().filename().string();
  }
  throw Error(Code::invalid,
              "--versus " + name + ": there is no such program here" +
                  (list.empty() ? "; none was built: install libopenmpi-dev or libgloo-dev and build again"
                                : "; built are: " + list));
}

/// The arguments without --versus and --rounds, --format and --np, which are given anew.
std::vector<std::string> common_arguments(const std::vector<std::string>& arguments) {
  std::vector<std::string> kept;
  for (std::size_t i = 0; i < arguments.size(); ++i) {
    const std::string flag = arguments[i].substr(0, arguments[i].find('='));
    const bool dropped = flag == "--versus" || flag == "--rounds" || flag == "--format" || flag == "--np" ||
                         flag == "-np" || flag == "--transport" || flag == "--algorithm";
    if (!dropped) kept.push_back(arguments[i]);
    if (dropped && flag == arguments[i]) ++i;
  }
  return kept;
}

std::string quoted(const std::string& word) {
  std::string text = "'";
  for (const char c : word) text += c == '\'' ? std::string("'\\''") : std::string(1, c);
  return text + "'";
}

std::vector<Line> run_once(const Contestant& contestant) {
  std::string line;
  for (const std::string& word : contestant.command) line += quoted(word) + " ";
  std::FILE* pipe = popen(line.c_str(), "re");
  if (!pipe) throw Error(Code::resource, "cannot start " + contestant.name);
  std::string text;
  char chunk[4096];
  for (std::size_t n; (n = std::fread(chunk, 1, sizeof chunk, pipe)) > 0;) text.append(chunk, n);
  const int status = pclose(pipe);
  std::vector<Line> lines = parse_csv(text);
  const bool right = std::all_of(lines.begin(), lines.end(), [](const Line& one) { return one.ok; });
  if (status != 0 || lines.empty() || !right)
    throw Error(Code::internal, contestant.name + (right ? " failed" : " gave wrong results") +
                                    "; its own messages are above; it ran as: " + line);
  return lines;
}

std::string default_transport(const std::string& peer) { return peer == "gloo" ? "tcp" : "shm"; }

/// Ours for each transport that is needed, and the peers; `pairs` says who is compared with whom.
std::vector<Contestant> contestants(const Request& request, const std::vector<std::string>& arguments,
                                    std::vector<Pair>& pairs) {
  const std::string ranks = std::to_string(request.ranks > 0 ? request.ranks : 2);
  const auto command = [&](std::vector<std::string> words) {
    for (const std::string& argument : common_arguments(arguments)) words.push_back(argument);
    for (const char* word : {"-np", ranks.c_str(), "--format", "csv"}) words.push_back(word);
    return words;
  };
  const bool asked = request.settings.sources.contains("transport");
  std::vector<Contestant> all;
  std::map<std::string, std::size_t> ours;
  for (const std::string& peer : request.versus) {
    const std::string transport = asked ? request.settings.transport : default_transport(peer);
    if (!ours.contains(transport)) {
      ours[transport] = all.size();
      all.push_back({"tutti " + transport, command({self(), "bench"}), {}});
      for (const std::string& word : {std::string("--transport"), transport}) all.back().command.push_back(word);
      if (!request.algorithm.empty())
        for (const std::string& word : {std::string("--algorithm"), request.algorithm})
          all.back().command.push_back(word);
    }
    pairs.push_back({ours[transport], all.size()});
    all.push_back({peer, command({find_peer(peer)}), {}});
  }
  return all;
}

double median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  const std::size_t half = values.size() / 2;
  return values.size() % 2 ? values[half] : (values[half - 1] + values[half]) / 2;
}

void print(const Request& request, const std::vector<Contestant>& all, const std::vector<Pair>& pairs) {
  const bool csv = request.format == "csv", json = request.format == "json";
  if (csv) fmt::print("peer,ours,op,dtype,bytes,ranks,rounds,peer_us,ours_us,ratio,ratio_min,ratio_max\n");
  if (json) fmt::print("[");
  bool first = true;
  for (const Pair& pair : pairs) {
    const Contestant &ours = all[pair.ours], &peer = all[pair.peer];
    if (!csv && !json)
      fmt::print("# {} / {}: above 1, tutti is faster\n# {:>12} {:>12} {:>12} {:>8} {:>8} {:>8}\n", peer.name,
                 ours.name, "size (B)", "peer (us)", "tutti (us)", "ratio", "least", "most");
    for (const auto& [bytes, ignored] : ours.rounds.front()) {
      std::vector<double> ratios, peer_us, ours_us;
      for (std::size_t r = 0; r < ours.rounds.size(); ++r) {
        peer_us.push_back(peer.rounds[r].at(bytes));
        ours_us.push_back(ours.rounds[r].at(bytes));
        ratios.push_back(peer_us.back() / ours_us.back());
      }
      const auto [least, most] = std::minmax_element(ratios.begin(), ratios.end());
      const int ranks = request.ranks > 0 ? request.ranks : 2;
      if (csv)
        fmt::print("{},{},{},{},{},{},{},{:.3f},{:.3f},{:.3f},{:.3f},{:.3f}\n", peer.name, ours.name,
                   collective_name(request.kind), name(request.dtype), bytes, ranks, ratios.size(), median(peer_us),
                   median(ours_us), median(ratios), *least, *most);
      else if (json)
        fmt::print(
            R"({}{{"peer": "{}", "ours": "{}", "op": "{}", "dtype": "{}", "bytes": {}, "ranks": {}, "rounds": {}, "peer_us": {:.3f}, "ours_us": {:.3f}, "ratio": {:.3f}, "ratio_min": {:.3f}, "ratio_max": {:.3f}}})",
            first ? "\n  " : ",\n  ", peer.name, ours.name, collective_name(request.kind), name(request.dtype), bytes,
            ranks, ratios.size(), median(peer_us), median(ours_us), median(ratios), *least, *most);
      else
        fmt::print("  {:>12} {:>12.2f} {:>12.2f} {:>8.2f} {:>8.2f} {:>8.2f}\n", bytes, median(peer_us), median(ours_us),
                   median(ratios), *least, *most);
      first = false;
    }
  }
  if (json) fmt::print("\n]\n");
}

}  // namespace

int compare(const Request& request, const std::vector<std::string>& arguments) {
  std::vector<Pair> pairs;
  std::vector<Contestant> all = contestants(request, arguments, pairs);
  std::vector<std::size_t> order(all.size());
  for (std::size_t i = 0; i < order.size(); ++i) order[i] = i;
  std::mt19937 shuffler{std::random_device{}()};
  for (int round = 0; round < request.rounds; ++round) {
    std::shuffle(order.begin(), order.end(), shuffler);
    std::string names;
    for (const std::size_t i : order) {
      names += (names.empty() ? "" : ", ") + all[i].name;
      auto& results = all[i].rounds.emplace_back();
      for (const Line& line : run_once(all[i])) results[line.bytes] = line.median_us;
    }
    if (request.format == "human") fmt::print("# round {}: {}\n", round + 1, names);
    std::fflush(stdout);
  }
  print(request, all, pairs);
  return 0;
}

}  // namespace tutti::bench
