// Creates optimizers by the name of their rule; for make_optimizer() only. Each function returns null if it does not
// implement that name.
#pragma once

#include <memory>
#include <vector>

#include "engine/optimizers/optimizer.hpp"

namespace tutti::engine::rules {

std::unique_ptr<Optimizer> make_descent(const std::vector<ParameterGroup>& groups, const Options& options);
std::unique_ptr<Optimizer> make_adaptive(const std::vector<ParameterGroup>& groups, const Options& options);

}  // namespace tutti::engine::rules
