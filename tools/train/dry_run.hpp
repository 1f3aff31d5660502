// Predictions about a run, without starting its ranks.
#pragma once

#include <string>

#include "engine/trainer.hpp"

namespace tutti::tools {

/// Throws Error{invalid} if a configuration asks for more ranks than it has work for.
void check_parallelism(engine::Config config, int ranks);

/// Lines for people: how ranks and batch are divided, parameters, bytes exchanged per step, memory, and the expected
/// time, which is estimated from a few steps of this process with one rank's share of the batch. `link` is a text of
/// engine::Link; if it is empty, the link between two threads of this process is measured. Throws what training would.
std::string dry_run(engine::Config config, int ranks, const std::string& link);

/// Lines for people: the strategy's axes, with bytes and memory by formula. Creates the network and does not train it.
std::string explain_strategy(engine::Config config, int ranks);

}  // namespace tutti::tools
