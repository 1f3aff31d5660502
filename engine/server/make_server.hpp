// Makes the masters' rules and the workers' strategy from a configuration.
#pragma once

#include <memory>
#include <vector>

#include "engine/config.hpp"
#include "engine/server/server_worker.hpp"
#include "engine/server/submaster_exchange.hpp"

namespace tutti::engine {

/// The rules for ParameterServer::Options, the same on all masters. `parameters` are the network's. `ledger` counts the
/// workers in `ranks`. Throws Error{invalid}.
ServerRules master_rules(const Config& config, std::vector<nn::NamedTensor> parameters,
                         const std::shared_ptr<Ledger>& ledger, const WorkerRanks& ranks);

/// How sub-masters exchange with the top master. With elastic_force given, elastic is elastic_force / submasters.
/// Changes that groups made by gradients, deltas or gem are added up at the top; if workers exchange in rounds and
/// strategy.merge is not sum, they are averaged over the groups. The optimizer and the outer step run in the groups.
SubmasterNumbers submaster_numbers(const Config& config, int submasters);

/// The strategy of a worker, whose ranks are replica.world; `workers` is the number of workers at its masters. Blocks
/// as ServerWorker::make() does. Collective over replica.world.
std::unique_ptr<ServerWorker> make_worker(const Config& config, int workers, const Replica& replica,
                                          const WorkerPlace& place);

}  // namespace tutti::engine
