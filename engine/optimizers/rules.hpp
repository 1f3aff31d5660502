// The rules of the optimizers, for make_optimizer() only. Each function returns null for a name that it does not
// implement.
#pragma once

#include <memory>
#include <vector>

#include "engine/optimizers/optimizer.hpp"

namespace tutti::engine::rules {

std::unique_ptr<Optimizer> make_descent(const std::vector<ParameterGroup>& groups, const Options& options);
std::unique_ptr<Optimizer> make_adaptive(const std::vector<ParameterGroup>& groups, const Options& options);

}  // namespace tutti::engine::rules
