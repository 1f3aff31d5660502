// Formulas for the bytes that functions of nn/ communicate per rank; they do not depend on the number of ranks.
#pragma once

#include <cstddef>

namespace tutti::nn {

/// Bytes that a rank passes to check_replicas()'s allreduces for replicas of `tensors` tensors, and receives from them.
constexpr std::size_t replica_check_bytes(std::size_t tensors) noexcept { return 16 + 16 * tensors; }

}  // namespace tutti::nn
