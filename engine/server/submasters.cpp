#include "engine/server/submasters.hpp"

#include <ATen/Functions.h>

#include <algorithm>

#include "engine/models/model.hpp"
#include "engine/server/make_server.hpp"
#include "engine/server/server_copy.hpp"

namespace tutti::engine {
namespace {

/// Returns the trained parameters, flattened into one tensor for each element type, in the order that workers use.
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

std::vector<BufferSpec> parts_of(const std::vector<at::Tensor>& pieces) {
  std::vector<BufferSpec> parts;
  for (const at::Tensor& piece : pieces)
    parts.push_back({static_cast<std::size_t>(piece.numel()), nn::dtype_of(piece)});
  return parts;
}

}  // namespace

std::string group_keys(std::size_t group) { return "group/" + std::to_string(group) + "/"; }

Hierarchy connect_groups(const Config& config, const Roles& roles, Communicator& world, const Network& network,
                         ParameterServer::Options group) {
  const SubmasterNumbers numbers = submaster_numbers(config, static_cast<int>(roles.submasters.size()));
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
      made.submaster = std::make_unique<SubmasterExchange>(
          numbers, SubmasterExchange::Place{made.top, made.group, progress}, parts_of(pieces));
  }
  if (made.submaster && world.rank() == roles.submasters.front()) {
    std::vector<ConstBuffer> values;
    for (const at::Tensor& piece : pieces) values.push_back(exchange::read_only(piece));
    made.submaster->bring(values);
  }
  world.barrier().wait();  // now the top has its initial parameters, and waits for every sub-master at the end
  if (const auto worker = std::ranges::find(roles.workers, world.rank(),
                                            [](const std::vector<int>& processes) { return processes.front(); });
      worker != roles.workers.end())
    made.top_connection = std::make_shared<TopConnection>(made.top, static_cast<int>(worker - roles.workers.begin()));
  return made;
}

}  // namespace tutti::engine
