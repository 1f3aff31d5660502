// The summary at the end of a run.
#pragma once

#include <string>

#include "engine/trainer.hpp"

namespace tutti::tools {

/// Lines for people, each with a heading: the best epoch, speed and how the time was spent, the folder, and the next
/// command. Empty if no epoch has ended.
std::string summary(const engine::Config& config, const engine::TrainResult& result);

}  // namespace tutti::tools
