#include "engine/server/roles.hpp"

#include <algorithm>
#include <numeric>

#include "collectives/parameter_server/sharding.hpp"
#include "engine/strategies/axes.hpp"
#include "engine/strategies/explain.hpp"

namespace tutti::engine {
namespace {

/// Divides the ranks from `first` on into workers of `processes` ranks each. `processes` must divide their number.
std::vector<std::vector<int>> workers_from(int first, int ranks, int processes) {
  std::vector<std::vector<int>> workers;
  for (; first < ranks; first += processes) {
    workers.emplace_back(static_cast<std::size_t>(processes));
    std::iota(workers.back().begin(), workers.back().end(), first);
  }
  return workers;
}

/// Implements roles_of() for runs with strategy.submasters.
Roles grouped_roles(const Config& config, int ranks) {
  if (config.checkpoint.resumes() || config.checkpoint.every_epochs > 0 || config.checkpoint.every_steps > 0)
    refuse(
        "strategy.submasters: checkpoints within a run cannot be made of several masters' parameters; leave "
        "checkpoint.every_epochs, checkpoint.every_steps and resume out: the end is kept, in model.safetensors of the "
        "run's folder");
  const Axes axes = axes_of(config);
  const int submasters = static_cast<int>(axes.server.submasters), processes = static_cast<int>(axes.server.processes);
  const int left = ranks - 1 - submasters, workers = left / processes;
  const std::string said = "strategy.submasters=" + std::to_string(submasters) + " of " + std::to_string(ranks) +
                           " ranks, of which one is the top master: ";
  if (workers < submasters)
    refuse(said + "not every group has a worker; start at least " + std::to_string(1 + submasters * (1 + processes)) +
           " ranks");
  if (left % processes != 0)
    refuse(said + "the other " + std::to_string(left) + " do not make whole workers of strategy.processes=" +
           std::to_string(processes) + "; start " + std::to_string(ranks + processes - left % processes) + " ranks");
  Roles roles{.masters = {0}};
  roles.workers = workers_from(1 + submasters, ranks, processes);
  roles.groups = even_shards(roles.workers.size(), static_cast<std::size_t>(submasters));
  for (int rank = 1; rank <= submasters; ++rank) roles.submasters.push_back(rank);
  return roles;
}

std::string ranks_text(const char* what, int first, int last) {
  return std::string(what) + (first == last ? " " : "s ") + std::to_string(first) +
         (first == last ? "" : " to " + std::to_string(last));
}

}  // namespace

bool has_masters(const Config& config) { return axes_of(config).how == Axes::How::server; }

Roles roles_of(const Config& config, int ranks) {
  const Axes axes = axes_of(config);
  if (axes.server.submasters > 0) return grouped_roles(config, ranks);
  const int masters = static_cast<int>(axes.server.masters), processes = static_cast<int>(axes.server.processes);
  const int left = ranks - masters;
  if (left < 1)
    refuse("strategy.masters=" + std::to_string(masters) + " of " + std::to_string(ranks) +
           " ranks: nobody is left to work; start more ranks, or say strategy.masters=0");
  if (left % processes != 0)
    refuse("strategy.processes=" + std::to_string(processes) + ": " + std::to_string(left) +
           " working ranks do not make whole workers; start " + std::to_string(ranks + processes - left % processes) +
           " ranks");
  if (axes.server.joins > 0 && !config.has_folder())
    refuse("strategy.joins: workers find the run by its folder, so say run=DIR");
  Roles roles;
  const int all = axes.members == Axes::Members::quorum ? 1 : ranks;  // one master must choose a round's workers
  for (int rank = 0; rank < (masters > 0 ? masters : all); ++rank) roles.masters.push_back(rank);
  roles.workers = workers_from(masters, ranks, processes);
  return roles;
}

bool keeps_parameters(const Roles& roles, int rank) {
  return std::ranges::count(roles.masters, rank) + std::ranges::count(roles.submasters, rank) > 0;
}

int tells_of_death(const Roles& roles, int master) {
  if (roles.submasters.empty()) return roles.workers[0][0];
  return master == roles.masters[0] ? roles.submasters[0] : roles.masters[0];
}

std::string explain_groups(const Config& config, const std::vector<nn::NamedTensor>& parameters, int ranks) {
  if (!has_masters(config)) return {};
  const Roles roles = roles_of(config, ranks);
  if (roles.submasters.empty()) return {};
  const std::int64_t every = axes_of(config).server.submaster_every;
  std::string text = "masters     rank 0 keeps the top's parameters; of groups\n";
  for (std::size_t i = 0; i < roles.groups.size(); ++i) {
    const std::vector<std::vector<int>>& workers = roles.workers;
    const std::size_t first = roles.groups[i].offset, last = roles.groups[i].end() - 1;
    text += "            rank " + std::to_string(roles.submasters[i]) + " those of " +
            ranks_text("worker", static_cast<int>(first), static_cast<int>(last)) + " (" +
            ranks_text("rank", workers[first].front(), workers[last].back()) + ")\n";
  }
  const double bytes = static_cast<double>(strategy_cost(config, parameters, {}, ranks).round_bytes);
  const std::string when = every == 1 ? "update" : std::to_string(every) + " updates";
  return text + "            each sends the top " + bytes_text(bytes) + " and gets as much after every " + when +
         " of its group, and once in the end\n";
}

}  // namespace tutti::engine
