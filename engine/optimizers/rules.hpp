// The rules of optimizers, for make_optimizer() alone: each maker gives nothing for a name that is not its own.
#pragma once

#include <memory>
#include <vector>

#include "engine/optimizers/optimizer.hpp"

namespace tutti::engine::rules {

std::unique_ptr<Optimizer> make_descent(const std::vector<ParameterGroup>& groups, const Options& options);
std::unique_ptr<Optimizer> make_adaptive(const std::vector<ParameterGroup>& groups, const Options& options);

}  // namespace tutti::engine::rules
