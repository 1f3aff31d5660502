// Describes a strategy: its axes, and its cost by formula.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "engine/config.hpp"
#include "nn/module.hpp"

namespace tutti::engine {

/// Bytes are those that a rank passes to collectives and messages; an algorithm may send more, as a ring allreduce
/// sends 2 (p - 1) / p times as many. With masters they are those that a worker sends, and it receives as many;
/// state_bytes is 0 then.
struct StrategyCost {
  std::uint64_t round_bytes = 0;  ///< to exchange everything once; with gossip one push
  std::uint64_t peak_bytes = 0;   ///< the most in one step
  double step_bytes = 0;          ///< the mean of a step
  std::uint64_t state_bytes = 0;  ///< memory on each rank besides parameters, gradients, buffers and the optimizer
};

/// For a network with these parameters and buffers. Throws Error{invalid}.
StrategyCost strategy_cost(const Config& config, const std::vector<nn::NamedTensor>& parameters,
                           const std::vector<nn::NamedTensor>& buffers, int ranks);

/// Bytes for people: "1.234 MB".
std::string bytes_text(double bytes);

/// A text of several lines with the axes and the cost. explain_groups() in engine/server/roles.hpp continues it.
std::string explain_strategy(const Config& config, const std::vector<nn::NamedTensor>& parameters,
                             const std::vector<nn::NamedTensor>& buffers, int ranks);

}  // namespace tutti::engine
