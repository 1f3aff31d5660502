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

/// Returns true if all numbers of all gradients are finite. Skips parameters without a gradient. Reads each gradient
/// once on the CPU. Blocks until the device has computed the result if gradients are on a device.
bool gradients_are_finite(const std::vector<nn::NamedTensor>& parameters);

}  // namespace tutti::engine
