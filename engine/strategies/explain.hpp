// Describes a strategy: its axes, and its cost by formula.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "engine/config.hpp"
#include "nn/module.hpp"

namespace tutti::engine {

/// The cost of a strategy. Bytes are those that a rank passes to collectives and messages. An algorithm may send more:
/// a ring allreduce sends 2 (p - 1) / p times as many. With masters, bytes are those that a worker sends (it receives
/// as many), and state_bytes is 0.
struct StrategyCost {
  std::uint64_t round_bytes = 0;  ///< to exchange everything once; with gossip: of one push
  std::uint64_t peak_bytes = 0;   ///< the largest number of bytes in one step
  double step_bytes = 0;          ///< the mean number of bytes per step
  std::uint64_t state_bytes = 0;  ///< memory on each rank besides parameters, gradients, buffers and the optimizer
};

/// Returns the cost for a network with these parameters and buffers. Throws Error{invalid}.
StrategyCost strategy_cost(const Config& config, const std::vector<nn::NamedTensor>& parameters,
                           const std::vector<nn::NamedTensor>& buffers, int ranks);

/// Formats bytes for display: "1.234 MB".
std::string bytes_text(double bytes);

/// Returns several lines with the axes and the cost. explain_groups() in engine/server/roles.hpp adds to this text.
std::string explain_strategy(const Config& config, const std::vector<nn::NamedTensor>& parameters,
                             const std::vector<nn::NamedTensor>& buffers, int ranks);

}  // namespace tutti::engine
