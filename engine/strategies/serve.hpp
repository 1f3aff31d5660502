// Serve: what a configuration means to masters, and to their workers.
#pragma once

#include <memory>
#include <vector>

#include "engine/config.hpp"
#include "engine/strategies/relay.hpp"
#include "engine/strategies/served.hpp"

namespace tutti::engine {

/// For ParameterServer::Options: `parameters` are the network's; the same on all masters. The ledger is of the workers
/// for which `ranks` talk. Throws Error{invalid}.
ServerRules master_rules(const Config& config, std::vector<nn::NamedTensor> parameters,
                         const std::shared_ptr<Ledger>& ledger, const WorkerRanks& ranks);

/// How so many sub-masters take part at the top: elastic is elastic_force over their number, where that is given. What
/// the masters of groups have made of gradients and of deltas, of gem too, is added up at the top; where their workers
/// meet in rounds, as a mean, over the number of groups, unless strategy.merge=sum. The optimizer and the outer step
/// are the groups'.
RelayNumbers relay_numbers(const Config& config, int submasters);

/// The strategy of one of so many workers, whose ranks are replica.world. Collective over these; blocks until the first
/// worker has brought the centre.
std::unique_ptr<Served> make_worker(const Config& config, int workers, const Replica& replica,
                                    const WorkerPlace& place);

}  // namespace tutti::engine
