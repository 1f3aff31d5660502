// A run's course as JSON, in mpi_learn's form.
#pragma once

#include <string>

#include "engine/checkpoint/state.hpp"
#include "engine/config.hpp"
#include "engine/strategies/stats.hpp"

namespace tutti::engine {

/// {"train_time": seconds, "args": what was configured by key, "history": {"0:0:RANK": lists by epoch}}. Like
/// mpi_learn's <model>_<trial>_history.json: rank 0 has loss and, of held-out samples, val_loss and a val_<metric>
/// each, which are of all ranks together; each rank has waited_for, how long the others waited for it.
/// `exchanged` is what each rank gave to others.
std::string history_json(const Config& config, const RunState& state, const ExchangeStats& exchanged, double seconds);

}  // namespace tutti::engine
