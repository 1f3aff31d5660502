// The functions that make_strategy() calls for each kind of strategy.
#pragma once

#include <memory>

#include "engine/strategies/axes.hpp"
#include "engine/strategies/strategy.hpp"
#include "nn/compression.hpp"

namespace tutti::engine::exchange {

/// Returns the compression of the axes, or null. Random numbers are drawn from `seed`.
std::shared_ptr<const nn::Compression> compression_of(const Axes& axes, std::uint64_t seed);

/// Makes the strategy for what=gradients.
std::unique_ptr<Strategy> make_gradients(const Config& config, const Axes& axes, Replica replica);
/// Makes the strategy for what=parameters or deltas with how=allreduce.
std::unique_ptr<Strategy> make_deltas(const Config& config, const Axes& axes, Replica replica);
/// Makes the same strategy, preceded by dense_steps steps that average gradients.
std::unique_ptr<Strategy> make_dense_first(const Config& config, const Axes& axes, Replica replica);

/// Makes the strategy for what=parameters or deltas with how=pairs.
std::unique_ptr<Strategy> make_pairs(const Config& config, const Axes& axes, Replica replica);
/// Makes the strategy for merge=gossip.
std::unique_ptr<Strategy> make_gossip(const Config& config, const Axes& axes, Replica replica);

/// Makes the strategy for deterministic=membership: `grains` parts per step, a power of two that is at least size().
std::unique_ptr<Strategy> make_grains(std::size_t grains, Replica replica);

/// Returns the traits of a strategy whose ranks make steps of their own.
Strategy::Traits local_traits(const Axes& axes, int ranks);

}  // namespace tutti::engine::exchange
