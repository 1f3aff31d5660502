// Cutting a buffer into one range for each server.
#include "collectives/parameter_server/sharding.hpp"

#include <algorithm>

namespace tutti {

ShardRange common(const ShardRange& a, const ShardRange& b) noexcept {
  const std::size_t begin = std::max(a.offset, b.offset), end = std::min(a.end(), b.end());
  return {begin, end > begin ? end - begin : 0};
}

std::vector<ShardRange> shards_of(std::span<const std::size_t> counts) {
  std::vector<ShardRange> shards;
  std::size_t offset = 0;
  for (const std::size_t count : counts) {
    shards.push_back({offset, count});
    offset += count;
  }
  return shards;
}

std::vector<ShardRange> even_shards(std::size_t count, std::size_t servers) {
  std::vector<std::size_t> counts(servers, count / servers);
  for (std::size_t i = 0; i < count % servers; ++i) ++counts[i];
  return shards_of(counts);
}

}  // namespace tutti
