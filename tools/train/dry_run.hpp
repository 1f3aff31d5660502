// What a run would be, without starting its ranks.
#pragma once

#include <string>

#include "engine/trainer.hpp"

namespace tutti::tools {

/// Throws Error{invalid} where a configuration asks for more ranks than it has work for.
void check_parallelism(engine::Config config, int ranks);

/// Some lines for people: how ranks and batch are dealt out, parameters, bytes that are exchanged in a step, memory,
/// and the time that is to be expected, from a few steps that this process takes alone with one rank's share of the
/// batch. `link` is engine::Link's text; empty: measured between two threads of this process. Throws what training
/// would.
std::string dry_run(engine::Config config, int ranks, const std::string& link);

/// The strategy over its axes, with bytes and memory by formula. Makes the network, and trains nothing.
std::string explain_strategy(engine::Config config, int ranks);

}  // namespace tutti::tools
