// Sharding: which part of a buffer each server holds.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "collectives/plan/range.hpp"

namespace tutti {

/// What both have; a count of 0 where that is nothing.
Range common(const Range& a, const Range& b) noexcept;

/// One range for each server, one after the other: floor(count / servers), and one more for the first count % servers.
/// The last ones are empty where there are fewer elements than servers.
std::vector<Range> even_shards(std::size_t count, std::size_t servers);

/// The same by given counts, of which any may be 0.
std::vector<Range> shards_of(std::span<const std::size_t> counts);

}  // namespace tutti
