// `tutti info`: prints what is built in, what works on this machine, the settings, and the routes between ranks.
#include "tools/command.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>

#include "collectives/bootstrap/racks.hpp"
#include "collectives/plan/algorithm.hpp"
#include "tools/info/availability.hpp"
#include "tools/info/choices.hpp"
#include "tools/info/parts.hpp"
#include "tools/options.hpp"
#include "tools/own_job.hpp"
#include "transports/core/host.hpp"
#include "tutti.hpp"
#include "tutti/provider/provider.hpp"

namespace tutti::tools {
extern const Command info_command;

namespace {

constexpr int most_started = 1024;

void print_machine(const Settings& settings) {
  fmt::print("tutti      {}\n", version());
  fmt::print("host       {} (identity {})\n", host_name(), host_identity(settings.host_id));
  if (const std::string rack = launchers::own_rack(settings); !rack.empty()) fmt::print("rack       {}\n", rack);
  const int node = numa_node(allowed_cores());
  const std::string gpus = gpu_domain();
  fmt::print("cores      {} usable by this process, {}\n", usable_cores(),
             node < 0 ? "of no single NUMA node" : "of NUMA node " + std::to_string(node));
  fmt::print("GPUs       {}\n", gpus.empty() ? "none" : gpus);
  fmt::print("folds      {}\n", fold_isa());
  fmt::print("algorithms {} (`tutti info --algorithms` lists them)\n", catalog().size());
}

void print_providers(const Settings& settings) {
  fmt::print("\n{:<10} {:<11} {:<4} {}\n", "provider", "kind", "here", "");
  for (const std::string& name : provider_names(settings)) {
    const auto [provider, reason] = find_provider(name, settings);
    const bool transport = provider && provider->connect, backend = provider && provider->make_backend;
    fmt::print("{:<10} {:<11} {:<4} {}{}\n", name,
               transport && backend                ? "both"
               : backend                           ? "collectives"
               : transport                         ? "transport"
               : provider && provider->accelerator ? "devices"
                                                   : "-",
               reason.empty() ? "yes" : "no", provider ? provider->meaning : "",
               reason.empty() ? "" : (provider ? "; not viable: " : "not viable: ") + reason);
    if (provider && provider->details)
      for (const std::string& line : provider->details(settings)) fmt::print("{:<28}{}\n", "", line);
  }
  fmt::print(
      "\nBetween two ranks the first transport that reaches is taken, in the order of the setting transport: {}\n",
      settings.transport);
}

/// Removes folders from file names: they are those of the machine that built tutti, which may be another one.
std::string without_folders(std::string_view text) {
  std::string shown;
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t end = std::min(text.find_first_of(" ,;()'", at), text.size());
    std::string_view word = text.substr(at, end - at);
    if (word.starts_with('/')) word.remove_prefix(word.rfind('/') + 1);
    shown += word;
    shown += text.substr(end, 1);
    at = end + 1;
  }
  return shown;
}

void print_parts() {
  fmt::print("\n{:<14} {:<6} {}\n", "part", "built", "");
  for (const Part& part : parts())
    fmt::print("{:<14} {:<6} {}\n", part.name, part.built ? "yes" : "no", without_folders(part.reason));
}

void print_algorithms(const Settings& settings) {
  fmt::print("{:<15} {:<30} {:<14} {:<14} {:<14} {:<14} {}\n", "collective", "backend/algorithm", "cpu sync",
             "cpu async", "cuda sync", "cuda async", "");
  const std::vector<Availability> cells = availability(settings);
  for (std::size_t i = 0; i + 1 < cells.size(); i += 2) {  // each row uses two cells: cpu, cuda
    const std::string_view cpu = name(cells[i].state), cuda = name(cells[i + 1].state);
    const bool gpu_only = cells[i].state == Availability::State::unimplemented && cells[i + 1].state != cells[i].state;
    std::string note = cells[gpu_only ? i + 1 : i].note;
    const bool both = cells[i + 1].state != Availability::State::unimplemented && !gpu_only;
    if (both && cells[i + 1].note != note) note += "; " + cells[i + 1].note;
    fmt::print("{:<15} {:<30} {:<14} {:<14} {:<14} {:<14} {}\n", name(cells[i].kind), cells[i].target, cpu, cpu, cuda,
               cuda, note);
  }
}

void print_settings(const Settings& settings) {
  const Settings defaults;
  fmt::print("{:<16} {:<14} {:<14} {:<12} {}\n", "setting", "value", "default", "source", "meaning");
  for (const SettingInfo& row : setting_table()) {
    const auto source = settings.sources.find(row.key);
    const auto shown = [&](const Settings& from) {
      const std::string text = value_text(from, row);
      return text.empty() ? std::string("-") : text;
    };
    const bool hidden = row.key == "secret" && !settings.secret.empty();
    fmt::print("{:<16} {:<14} {:<14} {:<12} {}\n", row.key, hidden ? "(hidden)" : shown(settings), shown(defaults),
               source == settings.sources.end() ? "default" : source->second, row.meaning);
  }
  fmt::print("\nEach is an environment variable (TUTTI_LANE_BYTES) and a flag (--lane-bytes).\n");
}

/// Returns the texts of all ranks, by rank. Collective.
std::vector<std::string> collect(Communicator& world, const std::string& text) {
  const std::vector<std::int64_t> length = {static_cast<std::int64_t>(text.size())};
  std::vector<std::int64_t> lengths(static_cast<std::size_t>(world.size()));
  world.allgather(length, lengths).wait();
  const std::vector<std::size_t> counts(lengths.begin(), lengths.end());
  std::size_t total = 0;
  for (const std::size_t count : counts) total += count;
  std::vector<std::byte> all(total);
  world.allgatherv(ConstBuffer(text.data(), text.size(), DType::u8), all, counts).wait();
  std::vector<std::string> texts;
  const char* at = reinterpret_cast<const char*>(all.data());
  for (const std::size_t count : counts) {
    texts.emplace_back(at, count);
    at += count;
  }
  return texts;
}

int print_routes(const Settings& settings) {
  Communicator world = Communicator::from_env(settings);
  const std::string rack = world.topology()[world.rank()].rack;
  std::string mine = fmt::format("rank {} on {}{}, process {}\n", world.rank(), host_name(),
                                 rack.empty() ? "" : " in " + rack, getpid());
  const std::vector<std::string> routes = world.routes();
  for (std::size_t i = 0; i < routes.size(); ++i) mine += fmt::format("  to {:>3}  {}\n", i, routes[i]);
  const std::vector<std::string> all = collect(world, mine);
  if (world.rank() == 0)
    for (const std::string& text : all) fmt::print("{}", text);
  return 0;
}

int run(const std::vector<std::string>& arguments) {
  CLI::App app("Says what is built in, what works here and why not, and how ranks reach one another.", "tutti info");
  bool table = false, algorithms = false, routes = false;
  int ranks = 0, hosts = 0;
  app.add_flag("-c,--config", table, "the settings: value, default, source, meaning");
  app.add_flag("--algorithms", algorithms, "who can do which collective, on which device, and why not");
  app.add_flag("--routes", routes, "in a job: the transport between every pair of its ranks");
  app.add_option("--np", ranks, "start this many ranks and print their routes; with --hosts: of this many ranks")
      ->check(CLI::Range(1, 1 << 20));
  app.add_option("--hosts", hosts, "with --algorithms --np: which algorithm is chosen on so many hosts, and why")
      ->check(CLI::Range(2, 1 << 20));
  Settings settings = Settings::from_environment();
  add_settings(app, settings);
  parse(app, arguments);
  if (hosts > 0) {
    if (!algorithms || ranks == 0)
      usage_error(app, "--hosts needs --algorithms and --np: tutti info --algorithms --np 64 --hosts 8; ");
    print_choices(ranks, hosts, settings);
    return 0;
  }
  if (algorithms && ranks > 0)
    usage_error(app, "--algorithms with --np wants --hosts, for what is chosen on so many; or leave --np out; ");
  if (ranks > most_started)
    usage_error(app, fmt::format("--np {} would start so many ranks here: at most {}; ", ranks, most_started));
  if (routes || (ranks > 0 && inside_a_job())) return print_routes(settings);
  if (ranks > 0) {
    std::vector<std::string> words = {"info", "--routes"};
    words.insert(words.end(), arguments.begin(), arguments.end());
    become_job(ranks, settings, words);
  }
  warn_of_unknown(settings);
  if (table) print_settings(settings);
  if (algorithms) print_algorithms(settings);
  if (table || algorithms) return 0;
  print_machine(settings);
  print_providers(settings);
  print_parts();
  return 0;
}

}  // namespace

const Command info_command = {"what is built in, what works here, the settings, the routes", run};

}  // namespace tutti::tools
