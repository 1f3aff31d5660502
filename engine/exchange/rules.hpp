// The strategies, for make_strategy() alone.
#pragma once

#include <memory>

#include "engine/exchange/strategy.hpp"

namespace tutti::engine::exchange {

std::unique_ptr<Strategy> make_gradients(const Config& config, const Options& options, Replica replica);
/// `parameters` and `avg`.
std::unique_ptr<Strategy> make_parameters(const Config& config, const Options& options, Replica replica);
std::unique_ptr<Strategy> make_updates(const Config& config, const Options& options, Replica replica);

/// deterministic=membership: a step is cut into `grains`, a power of two, at least one for each rank.
std::unique_ptr<Strategy> make_grains(std::size_t grains, Replica replica);

}  // namespace tutti::engine::exchange
