// What calls of this floor cost a rank, whatever the number of ranks.
#pragma once

#include <cstddef>

namespace tutti::nn {

/// Bytes that a rank gives, and gets, to find out that replicas of so many tensors are equal (check_replicas()).
constexpr std::size_t replica_check_bytes(std::size_t tensors) noexcept { return 16 + 16 * tensors; }

}  // namespace tutti::nn
