// Splitting a buffer into one range per server.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "tutti/buffer.hpp"

namespace tutti {

/// The intersection of two ranges; its count is 0 if they have no element in common.
Range common(const Range& a, const Range& b) noexcept;

/// Contiguous ranges, one per server: floor(count / servers) elements each, and one more for the first count % servers.
std::vector<Range> even_shards(std::size_t count, std::size_t servers);

/// Contiguous ranges with the given counts, any of which may be 0.
std::vector<Range> shards_of(std::span<const std::size_t> counts);

}  // namespace tutti
