// Choices: prints which algorithms cost least, for each collective and size.
#include "tools/info/choices.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <vector>

#include "collectives/model/estimate.hpp"
#include "collectives/route/rules.hpp"
#include "collectives/route/tuning.hpp"
#include "tools/plan/text.hpp"
#include "transports/core/layout.hpp"
#include "tutti/topology.hpp"

namespace tutti::tools {
namespace {

constexpr std::size_t most_named = 3;

/// Returns the best three as text: "double_tree 24.0 us in 16 lanes, 4 at a time; hierarchical 51.2 us; ..."
std::string ranked_text(Kind kind, const Shape& shape, const model::Network& network, const model::Limits& limits) {
  std::string text;
  const auto ranked = model::rank_algorithms(kind, shape, size_of(DType::f32), network, limits);
  for (const model::Candidate& one : std::span(ranked).first(std::min(ranked.size(), most_named))) {
    text += fmt::format("{}{} {}", text.empty() ? "" : "; ", one.algorithm->name, planning::time_text(one.seconds));
    if (one.lanes.number > 1 && &one == ranked.data())
      text += fmt::format(" in {} lanes, {} at a time", one.lanes.number, std::min(one.at_once, one.lanes.number));
  }
  return text;
}

}  // namespace

void print_choices(int ranks, int hosts, const Settings& settings) {
  if (hosts > ranks)
    throw Error(Code::invalid,
                fmt::format("--hosts {}: there are only {} ranks; a host has one at least", hosts, ranks));
  std::vector<int> host;
  for (int rank = 0; rank < ranks; ++rank) host.push_back(static_cast<int>(std::int64_t{rank} * hosts / ranks));
  const Hosts table(host, ranks);
  const std::string tuned = read_tuning(settings);
  rules::before_costs({}, settings, tuned);  // throws for settings that jobs refuse as well
  const model::Network network = rules::network_of(settings, tuned);
  const model::Limits limits = model::limits_of(settings);
  fmt::print(
      "{} ranks on {} hosts, where no rule of TUTTI_SELECT or of `tutti tune` says otherwise: the least cost on the "
      "network\n{}\n\n{:<15} {:>8}  {}\n",
      ranks, hosts, to_string(network), "collective", "bytes", "best, and the next");
  for (int number = 0; number < kind_count; ++number) {
    const auto kind = static_cast<Kind>(number);
    if (kind == Kind::send) continue;
    for (const std::size_t bytes : {8u, 1u << 10, 64u << 10, 1u << 20, 64u << 20}) {
      const bool is_barrier = kind == Kind::barrier, has_blocks = has_blocks_in(kind) || has_blocks_out(kind);
      if ((is_barrier && bytes > 8) || (has_blocks && bytes > 1 << 20)) continue;
      const Shape shape{.size = ranks, .count = is_barrier ? 0 : bytes / size_of(DType::f32), .hosts = &table};
      fmt::print("{:<15} {:>8}  {}\n", name(kind), is_barrier ? "-" : planning::bytes_text(bytes),
                 ranked_text(kind, shape, network, limits));
    }
  }
  fmt::print("\n`tutti plan KIND --ranks {} --hosts {}` shows and costs any of them.\n", ranks, hosts);
}

}  // namespace tutti::tools
