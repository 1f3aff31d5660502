// The optional parts of this build, and why others are missing.
#pragma once

#include <span>
#include <string_view>

namespace tutti::tools {

struct Part {
  std::string_view name;
  bool built = false;
  std::string_view reason;  ///< what was found, or why it is not built
};

/// Generated at configuration, from the table that it prints.
std::span<const Part> parts() noexcept;

}  // namespace tutti::tools
