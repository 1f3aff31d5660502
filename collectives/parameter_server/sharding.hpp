// Sharding: which part of a buffer each server holds.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

namespace tutti {

/// Elements [offset, offset + count) of a buffer.
struct ShardRange {
  std::size_t offset = 0, count = 0;
  std::size_t end() const noexcept { return offset + count; }
  bool operator==(const ShardRange&) const = default;
};

/// What both have; a count of 0 where that is nothing.
ShardRange common(const ShardRange& a, const ShardRange& b) noexcept;

/// One range for each server, one after the other: floor(count / servers), and one more for the first count % servers.
/// The last ones are empty where there are fewer elements than servers.
std::vector<ShardRange> even_shards(std::size_t count, std::size_t servers);

/// The same by given counts, of which any may be 0.
std::vector<ShardRange> shards_of(std::span<const std::size_t> counts);

}  // namespace tutti
