// The functions behind make_strategy() that make each kind of strategy.
#pragma once

#include <memory>

#include "engine/strategies/axes.hpp"
#include "engine/strategies/strategy.hpp"
#include "nn/compression.hpp"

namespace tutti::engine::exchange {

/// The compression of the axes, or null. Random draws come from `seed`.
std::shared_ptr<const nn::Compression> compression_of(const Axes& axes, std::uint64_t seed);

/// what=gradients.
std::unique_ptr<Strategy> make_gradients(const Config& config, const Axes& axes, Replica replica);
/// what=parameters or deltas, how=allreduce.
std::unique_ptr<Strategy> make_deltas(const Config& config, const Axes& axes, Replica replica);
/// The same, after dense_steps steps that average gradients.
std::unique_ptr<Strategy> make_dense_first(const Config& config, const Axes& axes, Replica replica);

/// what=parameters or deltas, how=pairs.
std::unique_ptr<Strategy> make_pairs(const Config& config, const Axes& axes, Replica replica);
/// merge=gossip.
std::unique_ptr<Strategy> make_gossip(const Config& config, const Axes& axes, Replica replica);

/// deterministic=membership: `grains` parts per step, a power of two, at least size().
std::unique_ptr<Strategy> make_grains(std::size_t grains, Replica replica);

/// The traits of a strategy whose ranks make steps of their own.
Strategy::Traits local_traits(const Axes& axes, int ranks);

}  // namespace tutti::engine::exchange
