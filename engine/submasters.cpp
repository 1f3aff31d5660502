#include "engine/submasters.hpp"

#include <ATen/Functions.h>

#include <algorithm>
#include <numeric>

#include "collectives/parameter_server/sharding.hpp"
#include "engine/models/model.hpp"
#include "engine/strategies/axes.hpp"
#include "engine/strategies/centre.hpp"
#include "engine/strategies/serve.hpp"

namespace tutti::engine {
namespace {

[[noreturn]] void refuse(const std::string& text) { throw Error(Code::invalid, text); }

/// The trained parameters, flattened into one tensor for each element type, in the workers' order.
std::vector<at::Tensor> pieces_of(const Network& network) {
  const at::NoGradGuard no_grad;
  std::vector<at::Tensor> pieces;
  for (const auto& tensors : exchange::by_type(exchange::trained_of(tensors_of(network).parameters))) {
    std::vector<at::Tensor> flat;
    for (const auto& [name, tensor] : tensors) flat.push_back(tensor.detach().to(at::kCPU).reshape({-1}));
    pieces.push_back(at::cat(flat));
  }
  return pieces;
}

std::vector<RelayPart> parts_of(const std::vector<at::Tensor>& pieces) {
  std::vector<RelayPart> parts;
  for (const at::Tensor& piece : pieces)
    parts.push_back({static_cast<std::size_t>(piece.numel()), nn::dtype_of(piece)});
  return parts;
}

void check(const Config& config) {
  if (config.checkpoint.resumes() || config.checkpoint.every_epochs > 0 || config.checkpoint.every_steps > 0)
    refuse(
        "strategy.submasters: checkpoints within a run cannot be made of several masters' parameters; leave "
        "checkpoint.every_epochs, checkpoint.every_steps and resume out: the end is kept, in model.safetensors of the "
        "run's folder");
}

}  // namespace

Roles grouped_roles(const Config& config, int ranks) {
  check(config);
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

std::string group_keys(std::size_t group) { return "group/" + std::to_string(group) + "/"; }

Hierarchy connect_groups(const Config& config, const Roles& roles, Communicator& world, const Network& network,
                         ParameterServer::Options group) {
  const RelayNumbers numbers = relay_numbers(config, static_cast<int>(roles.submasters.size()));
  const std::vector<at::Tensor> pieces = pieces_of(network);
  Hierarchy made;
  made.members = std::make_shared<TopMembers>(roles.submasters, roles.workers.size());
  ParameterServer::Options above{.servers = roles.masters,
                                 .workers = roles.submasters,
                                 .rules = top_rules(numbers, pieces.size(), made.members),
                                 .timeout = no_deadline,
                                 .silence = group.silence};
  for (const std::vector<int>& worker : roles.workers) above.workers.push_back(worker.front());
  made.top = std::make_shared<ParameterServer>(world, above);
  if (!group.servers.empty()) {
    const auto progress = std::make_shared<GroupProgress>(group.workers);
    ServerRule& counted = group.rules.at(step_rule_name(0));  // workers push every element type, so one rule counts
    counted = with_progress(std::move(counted), progress);
    group.rules.emplace(over_rule_name(), over_rule(progress));
    group.workers.push_back(group.servers.front());
    made.group = std::make_shared<ParameterServer>(world, group);
    if (made.group->is_server())
      made.relay = std::make_unique<Relay>(numbers, Relay::Place{made.top, made.group, progress}, parts_of(pieces));
  }
  if (made.relay && world.rank() == roles.submasters.front()) {
    std::vector<ConstBuffer> values;
    for (const at::Tensor& piece : pieces) values.push_back(exchange::read_only(piece));
    made.relay->bring(values);
  }
  world.barrier().wait();  // the top has its initial parameters, and the end waits for every relay
  if (const auto worker = std::ranges::find(roles.workers, world.rank(),
                                            [](const std::vector<int>& processes) { return processes.front(); });
      worker != roles.workers.end())
    made.seat = std::make_shared<TopSeat>(made.top, static_cast<int>(worker - roles.workers.begin()));
  return made;
}

std::vector<std::vector<int>> workers_from(int first, int ranks, int processes) {
  std::vector<std::vector<int>> workers;
  for (; first < ranks; first += processes) {
    workers.emplace_back(static_cast<std::size_t>(processes));
    std::iota(workers.back().begin(), workers.back().end(), first);
  }
  return workers;
}

bool keeps_parameters(const Roles& roles, int rank) {
  return std::ranges::count(roles.masters, rank) + std::ranges::count(roles.submasters, rank) > 0;
}

int tells_of_death(const Roles& roles, int master) {
  if (roles.submasters.empty()) return roles.workers[0][0];
  return master == roles.masters[0] ? roles.submasters[0] : roles.masters[0];
}

}  // namespace tutti::engine
