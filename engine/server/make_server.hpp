// Makes the masters' rules and the workers' strategy from a configuration.
#pragma once

#include <memory>
#include <vector>

#include "engine/config.hpp"
#include "engine/server/server_worker.hpp"
#include "engine/server/submaster_exchange.hpp"

namespace tutti::engine {

/// Returns the rules for ParameterServer::Options, the same on all masters. `parameters` are those of the network.
/// `ledger` counts the steps of the workers in `ranks`. Throws Error{invalid}.
ServerRules master_rules(const Config& config, std::vector<nn::NamedTensor> parameters,
                         const std::shared_ptr<Ledger>& ledger, const WorkerRanks& ranks);

/// Returns how sub-masters exchange with the top master. If elastic_force is set, elastic is elastic_force /
/// submasters. If groups change by gradients, deltas or gem, the top master adds up their changes, or averages them if
/// workers exchange in rounds and strategy.merge is not sum. Groups run the optimizer and the outer step.
SubmasterNumbers submaster_numbers(const Config& config, int submasters);

/// Makes the strategy of a worker with the ranks of replica.world. `workers` is the number of workers at its masters.
/// Blocks as ServerWorker::make() does. Collective over replica.world.
std::unique_ptr<ServerWorker> make_worker(const Config& config, int workers, const Replica& replica,
                                          const WorkerPlace& place);

}  // namespace tutti::engine
