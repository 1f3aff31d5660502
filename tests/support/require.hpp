// Checks in ranks that are threads or processes of a test.
#pragma once

#include <stdexcept>
#include <string>

namespace tutti::testing {

/// Throws std::runtime_error{what} if `right` is false.
inline void require(bool right, const std::string& what) {
  if (!right) throw std::runtime_error(what);
}

}  // namespace tutti::testing
