// What is said at the end of a run.
#pragma once

#include <string>

#include "engine/trainer.hpp"

namespace tutti::tools {

/// Some lines for people, each with a heading: the best epoch, speed and where the time went, the folder, and what to
/// type next. Empty where no epoch has ended.
std::string summary(const engine::Config& config, const engine::TrainResult& result);

}  // namespace tutti::tools
