// The flags of `tutti plan`.
#include "tools/plan/request.hpp"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <charconv>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <numeric>
#include <sstream>

#include "collectives/plan/algorithm.hpp"
#include "collectives/plan/geometry.hpp"
#include "collectives/route/rules.hpp"
#include "collectives/route/tuning.hpp"
#include "tools/options.hpp"
#include "tools/plan/text.hpp"
#include "transports/core/layout.hpp"

namespace tutti::planning {
namespace {

constexpr int most_ranks = 1 << 20;

/// The texts of the flags, whose values are not yet checked.
struct Words {
  std::string kind, bytes = "1M", layout = "blocks", dtype = "f32", net, rank;
  int ranks = 0, hosts = 0, racks = 1, root = 0;
};

class Reader {
 public:
  Reader(const CLI::App& app, const Words& words) : app_(app), words_(words) {}

  void read(Request& request) const {
    const Settings settings = Settings::from_environment();
    request.limits = model::limits_of(settings);
    request.kind = kind();
    const auto dtype = parse_dtype(words_.dtype);
    if (!dtype)
      fail("there is no dtype '" + words_.dtype + "': it is one of i8 u8 i16 u16 i32 u32 i64 u64 f16 bf16 f32 f64");
    request.dtype = *dtype;
    read_layout(request);
    read_root(request);
    read_algorithm(request);
    read_network(request, settings);
    read_bytes(request);
    const Facts facts{request.kind, request.bytes(), request.shape.size, request.hosts->count()};
    request.rule = rules::before_costs(facts, settings, read_tuning(settings));
    read_rank(request);
    check_together(request);
  }

 private:
  [[noreturn]] void fail(const std::string& what) const { tools::usage_error(app_, what + "; "); }

  Kind kind() const {
    std::vector<std::string_view> known;
    for (int i = 0; i < kind_count; ++i)
      if (!algorithms_of(static_cast<Kind>(i)).empty()) known.push_back(name(static_cast<Kind>(i)));
    if (words_.kind.empty()) fail("which collective? tutti plan allreduce --ranks 64 --hosts 8, for example");
    const auto kind = parse_kind(words_.kind);
    if (kind && !algorithms_of(*kind).empty()) return *kind;
    const std::string_view near = nearest(words_.kind, known);
    fail(near.empty() ? fmt::format("there is no collective '{}' to plan: it is one of {}", words_.kind, listed(known))
                      : fmt::format("there is no collective '{}' to plan: did you mean '{}'?", words_.kind, near));
  }

  std::vector<int> listed_sizes() const {
    std::vector<int> sizes;
    const std::string& text = words_.layout;
    for (const char *at = text.data(), *const end = at + text.size(); at < end; ++at) {
      int size = 0;
      const auto [behind, error] = std::from_chars(at, end, size);
      if (error != std::errc{} || size < 1 || size > most_ranks ||
          (behind != end && (*behind != ',' || behind + 1 == end)))
        fail("--layout is blocks, turns, or the ranks of each host as 5,3,8; not '" + text + "'");
      sizes.push_back(size);
      at = behind;
    }
    return sizes;
  }

  void read_layout(Request& request) const {
    int ranks = words_.ranks, hosts = words_.hosts;
    if (words_.layout != "blocks" && words_.layout != "turns") {
      request.layout = {.order = Layout::Order::listed, .sizes = listed_sizes()};
      const std::vector<int>& sizes = request.layout.sizes;
      const auto sum = std::accumulate(sizes.begin(), sizes.end(), std::int64_t{0});
      const auto listed_hosts = static_cast<int>(sizes.size());
      if (ranks != 0 && ranks != sum)
        fail(fmt::format("--layout {} is {}, --ranks {}: leave --ranks out or make them equal", words_.layout,
                         plural(static_cast<std::size_t>(sum), "rank"), ranks));
      if (hosts != 0 && hosts != listed_hosts)
        fail(fmt::format("--layout {} is {}, --hosts {}: leave --hosts out or make them equal", words_.layout,
                         plural(sizes.size(), "host"), hosts));
      if (sum > most_ranks) fail(fmt::format("--layout has {} ranks, more than {}", sum, most_ranks));
      ranks = static_cast<int>(sum);
      hosts = listed_hosts;
    } else if (words_.layout == "turns") {
      request.layout.order = Layout::Order::turns;
    }
    if (ranks == 0) fail("how many ranks? --ranks 64, for example");
    if (hosts == 0) hosts = 1;
    if (hosts > ranks)
      fail(fmt::format("--hosts {} are more than --ranks {}: a host has at least one rank", hosts, ranks));
    if (words_.racks > hosts)
      fail(fmt::format("--racks {} are more than --hosts {}: a rack has at least one host", words_.racks, hosts));
    request.layout.racks = words_.racks;
    request.hosts = request.layout.hosts(ranks, hosts);
    request.shape.size = ranks;
    request.shape.hosts = request.hosts.get();
  }

  void read_root(Request& request) const {
    if (words_.root < 0 || words_.root >= request.shape.size)
      fail(fmt::format("--root {} is not one of the ranks 0 to {}", words_.root, request.shape.size - 1));
    if (words_.root != 0 && !has_root(request.kind))
      fail(fmt::format("{} has no root: leave --root out", name(request.kind)));
    request.shape.root = words_.root;
  }

  void read_algorithm(const Request& request) const {
    const std::string& wanted = request.algorithm;
    if (wanted == "all" || wanted == "chosen") return;
    const Algorithm* const found = find_algorithm(request.kind, wanted);
    if (found == nullptr)
      fail(fmt::format("{} has no algorithm '{}', but {}; or all, or chosen", name(request.kind), wanted,
                       algorithm_names(request.kind)));
    if (found->fits != nullptr && !found->fits(request.shape))
      fail(fmt::format("{} {} does not fit {} on {}: --algorithm all lists those that do", name(request.kind), wanted,
                       plural(static_cast<std::size_t>(request.shape.size), "rank"),
                       plural(static_cast<std::size_t>(request.hosts->count()), "host")));
  }

  std::string text_of_file() const {
    std::ifstream file(words_.net);
    if (!file || !std::filesystem::is_regular_file(words_.net))
      fail("--net " + words_.net + ": this file cannot be read; or give a name (" + network_names() +
           ") or levels as " + levels_example());
    return {std::istreambuf_iterator<char>(file), {}};
  }

  /// Converts a network's levels, written one per line with comments, to the form that parse_network() parses.
  static std::string joined(const std::string& text) {
    std::istringstream lines(text);
    std::string levels;
    for (std::string line; std::getline(lines, line);) {
      line.resize(std::min(line.find('#'), line.size()));
      if (line.find_first_not_of(" \t\r") != std::string::npos) levels += (levels.empty() ? "" : ", ") + line;
    }
    return levels;
  }

  /// Reads a network from a file: from its line "network: ..." if it has measured rules, or from levels alone.
  model::Network network_of_file() const {
    const std::string text = text_of_file();
    try {
      const auto measured = rules::network_in(text);
      if (!measured && text.find('=') != std::string::npos)
        fail("--net " + words_.net +
             ": these are rules without a line 'network:', as `tutti tune --network` prints it");
      return measured ? *measured : model::parse_network(joined(text));
    } catch (const Error& error) {
      throw Error(error.code(), words_.net + ": " + error.what());
    }
  }

  model::Network network_of_text() const {
    if (words_.net.find_first_of(" ,:") != std::string::npos) return model::parse_network(words_.net);
    std::vector<std::string_view> names;
    for (const model::NamedNetwork& one : model::named_networks()) names.push_back(one.name);
    if (std::ranges::count(names, words_.net) == 0) {
      const std::string_view near = nearest(words_.net, names);
      fail(fmt::format("--net '{}' is no file here, none of {}{}, and no levels such as {}", words_.net, listed(names),
                       near.empty() ? "" : fmt::format(" (did you mean '{}'?)", near), levels_example()));
    }
    return model::parse_network(words_.net);
  }

  static std::string network_names() {
    std::vector<std::string_view> names;
    for (const model::NamedNetwork& one : model::named_networks()) names.push_back(one.name);
    return listed(names);
  }
  static std::string levels_example() { return "\"within 0.3us 10G, between 2us 12.5G, fold 10G\""; }

  void read_network(Request& request, const Settings& settings) const {
    const std::string& wanted = words_.net;
    const auto known = std::ranges::find(model::named_networks(), wanted, &model::NamedNetwork::name);
    const bool is_known = known != model::named_networks().end();
    const bool is_path = wanted.find('/') != std::string::npos && wanted.find(' ') == std::string::npos;
    const bool is_file = !is_known && (is_path || std::filesystem::exists(wanted));
    if (wanted.empty())  // the network that communicators on this machine use
      request.network = rules::network_of(settings, read_tuning(settings));
    else
      request.network = is_file ? network_of_file() : network_of_text();
    for (const model::NamedNetwork& one : model::named_networks())
      if (to_string(one.network) == to_string(request.network)) request.network_name = one.name;
  }

  void read_bytes(Request& request) const {
    const std::int64_t bytes = parse_bytes(words_.bytes);
    if (bytes < 0) fail("--bytes must not be negative");
    if (request.kind == Kind::barrier) return;
    const std::size_t width = request.width();
    request = with_bytes(std::move(request), static_cast<std::size_t>(bytes));
    if (request.bytes() != static_cast<std::size_t>(bytes))
      request.note = fmt::format("{} bytes are no multiple of {}'s {}: rounded to {}", bytes, name(request.dtype),
                                 width, request.bytes());
  }

  void read_rank(Request& request) const {
    const std::string& text = words_.rank;
    if (text.empty()) return;
    request.all_ranks = text == "all";
    if (request.all_ranks && request.shape.size > 64 && !request.whole)
      fail(fmt::format("--rank all prints at most 64 ranks, not {}: name one, or add --whole", request.shape.size));
    if (request.all_ranks) return;
    int rank = 0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), rank);
    if (error != std::errc{} || end != text.data() + text.size() || rank < 0 || rank >= request.shape.size)
      fail(fmt::format("--rank is one of the ranks 0 to {}, or all; not '{}'", request.shape.size - 1, text));
    request.rank = rank;
  }

  void check_files(const Request& request) const {
    for (const auto& [option, file] : {std::pair{"--svg", &request.svg_file}, {"--json", &request.json_file}})
      if (app_.count(option) > 0 && file->empty()) fail(fmt::format("{} wants the name of a file, or -", option));
    if (!request.svg_file.empty() && request.svg_file == request.json_file)
      fail("--svg and --json would write to one place: name two");
  }

  /// Throws for flags that cannot be combined.
  void check_together(const Request& request) const {
    const bool rounds = request.rank || request.all_ranks, sweep = !request.sweep.empty();
    if (!rounds && app_.count("--lane") > 0)
      fail("--lane chooses among the rounds that --rank prints: add --rank 0, or all");
    if (!rounds && app_.count("--steps") > 0) fail("--steps is of the rounds that --rank prints: add --rank 0, or all");
    check_files(request);
    if (rounds && (sweep || request.check)) fail("--rank prints rounds alone: leave --sweep and --check out");
    if (rounds && !(request.svg_file.empty() && request.json_file.empty()))
      fail("--rank prints rounds alone: leave --svg and --json out");
    if (rounds && request.algorithm == "all") fail("--rank prints one schedule: --algorithm names it, or chosen");
    if (request.by_replay && !sweep) fail("--replay is of --sweep; without it there is a replay anyway");
    if (!sweep) return;
    for (const char* const option : {"--algorithm", "--lanes", "--whole"})
      if (app_.count(option) > 0) fail(fmt::format("--sweep shows all algorithms by the model: leave {} out", option));
    if (request.sweep == "bytes" && app_.count("--bytes") > 0) fail("--sweep bytes shows all sizes: leave --bytes out");
    if (request.check) fail("--sweep shows costs and --check looks at one plan: choose one");
    if (request.sweep == "bytes" && request.kind == Kind::barrier)
      fail("a barrier has no bytes: --sweep ranks or --sweep hosts");
    if (request.sweep != "bytes" && request.layout.order == Layout::Order::listed)
      fail("--sweep " + request.sweep + " wants --layout blocks or turns with --ranks and --hosts");
  }

  const CLI::App& app_;
  const Words& words_;
};

}  // namespace

bool Request::has_blocks() const noexcept { return has_blocks_in(kind) || has_blocks_out(kind); }

std::shared_ptr<const Hosts> Layout::hosts(int ranks, int hosts) const {
  std::vector<int> host(static_cast<std::size_t>(ranks));
  std::size_t rank = 0;
  for (int i = 0; i < hosts && order != Order::turns; ++i) {
    const int size =
        order == Order::listed ? sizes[static_cast<std::size_t>(i)] : ranks / hosts + (i < ranks % hosts ? 1 : 0);
    std::fill_n(host.begin() + static_cast<std::ptrdiff_t>(rank), size, i);
    rank += static_cast<std::size_t>(size);
  }
  for (; rank < host.size(); ++rank) host[rank] = static_cast<int>(rank % static_cast<std::size_t>(hosts));
  if (racks == 1 || hosts == 1) return std::make_shared<const Hosts>(host, ranks);
  const Chunks in_rack(static_cast<std::size_t>(hosts), std::min(racks, hosts));
  std::vector<int> rack_of_host;
  for (int rack = 0; rack < in_rack.parts(); ++rack) rack_of_host.insert(rack_of_host.end(), in_rack[rack].count, rack);
  std::vector<int> rack_of_rank;
  for (const int one : host) rack_of_rank.push_back(rack_of_host[static_cast<std::size_t>(one)]);
  return std::make_shared<const Hosts>(host, ranks, std::span(&rack_of_rank, 1));
}

Request with_bytes(Request request, std::size_t bytes) {
  const std::size_t width = request.width();
  request.shape.count = std::max<std::size_t>((bytes + width / 2) / width, bytes == 0 ? 0 : 1);
  return request;
}

Request with_ranks(Request request, int ranks, int hosts) {
  request.hosts = request.layout.hosts(ranks, hosts);
  request.shape.size = ranks;
  request.shape.hosts = request.hosts.get();
  request.shape.root = std::min(request.shape.root, ranks - 1);
  return request;
}

Request parse_request(const std::vector<std::string>& arguments) {
  Request request;
  Words words;
  CLI::App app("Shows, counts, checks and costs the schedule of a collective, without a network.", "tutti plan");
  app.add_option("collective", words.kind, "allreduce, broadcast, ..., barrier");
  app.add_option("--ranks,--np", words.ranks, "how many ranks")->check(CLI::Range(1, most_ranks));
  app.add_option("--hosts", words.hosts, "on how many hosts [1]")->check(CLI::Range(1, most_ranks));
  app.add_option("--racks", words.racks, "in how many racks the hosts are")
      ->check(CLI::Range(1, most_ranks))
      ->capture_default_str();
  app.add_option("--layout", words.layout, "of ranks on hosts: blocks, turns, or the ranks of each host as 5,3,8")
      ->capture_default_str();
  app.add_option("-b,--bytes", words.bytes,
                 "of the buffer, or of a rank's block for kinds that have blocks: 8, 64K, 1M")
      ->capture_default_str();
  app.add_option("-d,--dtype", words.dtype, "i8 u8 i16 u16 i32 u32 i64 u64 f16 bf16 f32 f64")->capture_default_str();
  app.add_option("--root", words.root, "of broadcast, reduce, gather, scatter")->capture_default_str();
  app.add_option("-a,--algorithm", request.algorithm, "its name; all: ranks those that fit; chosen: by the model")
      ->capture_default_str();
  app.add_option(
      "--net", words.net,
      "the network: tcp, gigabit, fabric or loopback; or levels of latency, 10^9 bytes a second and overhead as "
      "\"within 0.3us 10G, between 2us 12.5G 0.5us, beyond 5us 25G, fold 10G, cores 4\" (beyond racks; cores that the "
      "ranks of a host share); or a file of such or of `tutti tune` [what communicators here go by]");
  app.add_option("--lanes", request.lanes, "parts of the buffer that play beside each other; 0: by the model")
      ->check(CLI::Range(0, 1 << 30))
      ->capture_default_str();
  app.add_option("--rank", words.rank, "print the rounds of this rank, or of all");
  app.add_option("--lane", request.lane, "with --rank: of this lane of the buffer")
      ->check(CLI::Range(0, 1 << 30))
      ->capture_default_str();
  app.add_option("--steps", request.steps, "at most so many rounds of a rank")
      ->check(CLI::Range(1, 1 << 30))
      ->capture_default_str();
  app.add_flag("--check", request.check, "check the plan, however many ranks it has");
  app.add_flag("--whole", request.whole, "replay and check all of it, however long that takes");
  app.add_option("--sweep", request.sweep, "the cost of every algorithm over bytes, ranks or hosts")
      ->check(CLI::IsMember({"bytes", "ranks", "hosts"}));
  app.add_flag("--replay", request.by_replay, "the costs of the sweep by replay, where that is short; else estimates");
  app.add_option("--svg", request.svg_file,
                 "draw the schedule in space and time, or the sweep, into this file; - prints it and nothing else");
  app.add_option("--json", request.json_file, "write all numbers into this file; - prints them and nothing else");
  tools::parse(app, arguments);
  Reader(app, words).read(request);
  return request;
}

}  // namespace tutti::planning
