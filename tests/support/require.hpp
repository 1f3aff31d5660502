// What a rank that is a thread or a process of a test has to see.
#pragma once

#include <stdexcept>
#include <string>

namespace tutti::testing {

/// Throws std::runtime_error{what} where it is not right.
inline void require(bool right, const std::string& what) {
  if (!right) throw std::runtime_error(what);
}

}  // namespace tutti::testing
