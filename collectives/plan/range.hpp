// Range: a contiguous part of a buffer.
#pragma once

#include <cstddef>

namespace tutti {

/// Elements [offset, offset + count).
struct Range {
  std::size_t offset = 0;
  std::size_t count = 0;
  std::size_t end() const noexcept { return offset + count; }
  bool operator==(const Range&) const = default;
};

}  // namespace tutti
