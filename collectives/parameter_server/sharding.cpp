#include "collectives/parameter_server/sharding.hpp"

#include <algorithm>

namespace tutti {

Range common(const Range& a, const Range& b) noexcept {
  const std::size_t begin = std::max(a.offset, b.offset), end = std::min(a.end(), b.end());
  return {begin, end > begin ? end - begin : 0};
}

std::vector<Range> shards_of(std::span<const std::size_t> counts) {
  std::vector<Range> shards;
  std::size_t offset = 0;
  for (const std::size_t count : counts) {
    shards.push_back({offset, count});
    offset += count;
  }
  return shards;
}

std::vector<Range> even_shards(std::size_t count, std::size_t servers) {
  std::vector<std::size_t> counts(servers, count / servers);
  for (std::size_t i = 0; i < count % servers; ++i) ++counts[i];
  return shards_of(counts);
}

}  // namespace tutti
