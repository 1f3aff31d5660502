// The optional parts of this build: what configuring found, and what not.
#pragma once

#include <span>
#include <string_view>

namespace tutti::tools {

struct Part {
  std::string_view name;
  bool built = false;
  std::string_view reason;  ///< what was found, or why it is not built
};

/// Generated when configuring, from the same table that it prints.
std::span<const Part> parts() noexcept;

}  // namespace tutti::tools
