// The history of a run as JSON, in the format of mpi_learn.
#pragma once

#include <string>

#include "engine/checkpoint/state.hpp"
#include "engine/config.hpp"
#include "engine/strategies/stats.hpp"

namespace tutti::engine {

/// {"train_time": seconds, "exchanges": N, "exchanged_bytes": N, "history": {"0:0:RANK": lists by epoch}, "args": the
/// configuration by key}, like mpi_learn's <model>_<trial>_history.json. Rank 0 has loss, val_loss and val_<metric> of
/// all ranks together, the learning rate and times; each rank has waited_for, how long the others waited for it.
/// `exchanged` are the statistics of this rank.
std::string history_json(const Config& config, const RunState& state, const ExchangeStats& exchanged, double seconds);

}  // namespace tutti::engine
