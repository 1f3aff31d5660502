// Checks that numbers are finite.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "nn/module.hpp"

namespace tutti::engine {

/// Returns true if no number is infinite or NaN.
bool all_finite(std::span<const float> numbers) noexcept;
bool all_finite(std::span<const double> numbers) noexcept;

/// Returns true if all numbers of all gradients are finite; parameters without a gradient are passed over. One pass
/// over memory on the CPU; blocks until a device has looked.
bool gradients_are_finite(const std::vector<nn::NamedTensor>& parameters);

}  // namespace tutti::engine
