// What a strategy costs, by formula, and what its name stands for.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "engine/config.hpp"
#include "nn/module.hpp"

namespace tutti::engine {

/// Of strategies with masters a round is a worker's exchange: what it sends, and it gets as much; its state is not
/// counted. Else bytes are what a rank gives to collectives and messages, before what these make of it: a ring's
/// allreduce sends 2 (p - 1) / p times as much.
struct StrategyCost {
  std::uint64_t round_bytes = 0;  ///< of one round, in which everything is exchanged once; of gossip: of one push
  std::uint64_t peak_bytes = 0;   ///< the most of them in one step
  double step_bytes = 0;          ///< a step's part of them, in the mean
  std::uint64_t state_bytes = 0;  ///< kept on each rank beside parameters, gradients, buffers and the optimizer
};

/// Of a network's parameters and buffers on so many ranks. Throws Error{invalid}.
StrategyCost strategy_cost(const Config& config, const std::vector<nn::NamedTensor>& parameters,
                           const std::vector<nn::NamedTensor>& buffers, int ranks);

/// The preset over the axes, with the costs: lines for people.
std::string explain_strategy(const Config& config, const std::vector<nn::NamedTensor>& parameters,
                             const std::vector<nn::NamedTensor>& buffers, int ranks);

}  // namespace tutti::engine
