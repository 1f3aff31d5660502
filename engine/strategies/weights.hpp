// Weights of ranks or workers in a merge.
#pragma once

#include <cstdint>

namespace tutti::engine {

/// The weight of a member that trained on so many samples (tokens) in so many steps: samples^2 / steps, or 0 without a
/// step (Decoupled DiLoCo 2026).
constexpr double token_weight(std::uint64_t samples, std::uint64_t steps) noexcept {
  const auto many = static_cast<double>(samples);
  return steps == 0 ? 0 : many * many / static_cast<double>(steps);
}

}  // namespace tutti::engine
