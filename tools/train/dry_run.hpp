// Predictions of what a run will need, without starting its ranks.
#pragma once

#include <string>

#include "engine/trainer.hpp"

namespace tutti::tools {

/// Throws Error{invalid} if a configuration asks for more ranks than can get work.
void check_parallelism(engine::Config config, int ranks);

/// Returns lines for people: how ranks and batch are divided, parameters, bytes exchanged per step, memory, and the
/// expected time. The time is estimated from a few steps of this process with one rank's share of the batch. `link` is
/// a text of engine::Link; if it is empty, measures the link between two threads of this process. Throws as training
/// does.
std::string dry_run(engine::Config config, int ranks, const std::string& link);

/// Returns lines for people: the strategy's options, bytes and memory by formula. Creates the network, trains nothing.
std::string explain_strategy(engine::Config config, int ranks);

}  // namespace tutti::tools
