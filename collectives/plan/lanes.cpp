// Lanes: see lanes.hpp.
#include "collectives/plan/lanes.hpp"

#include <algorithm>

#include "transports/core/layout.hpp"

namespace tutti {

Lanes lanes_of(const Algorithm& algorithm, const Shape& shape, std::size_t width, std::size_t lane_bytes) {
  const std::size_t count = shape.count;
  if (!algorithm.lanes || count == 0 || shape.size == 1) return {1, count};
  const std::size_t blocks = std::max(blocks_in(algorithm.kind, shape.size), blocks_out(algorithm.kind, shape.size));
  const std::size_t whole = count * blocks * width;
  const std::size_t by_bytes = (whole + lane_bytes - 1) / lane_bytes;
  const auto parts = algorithm.parts == nullptr ? std::size_t{1} : static_cast<std::size_t>(algorithm.parts(shape));
  const std::size_t least = std::max<std::size_t>(least_message(lane_bytes), 1);
  const std::size_t by_messages = count * width / (parts * least);
  const std::size_t wanted = std::clamp<std::size_t>(std::min(by_bytes, by_messages), 1, count);
  const std::size_t each = (count + wanted - 1) / wanted;
  return {(count + each - 1) / each, each};
}

}  // namespace tutti
