// Terminals for ranks whose output goes to a terminal. The launcher reads their output, but the ranks see a terminal,
// so they write line by line, in colour and with progress bars.
#pragma once

#include <optional>

#include "tools/run/spawn.hpp"
#include "transports/core/descriptor.hpp"

namespace tutti::tools {

/// A pseudo-terminal with the size of the launcher's terminal. Bytes pass through it unchanged.
struct Terminal {
  Descriptor reading;
  Inherited writing;
};

/// Makes one; `shown` is the launcher's terminal. Returns nothing if no pseudo-terminals are left.
std::optional<Terminal> make_terminal(int shown);

/// Sets the size of the pseudo-terminal behind `reading` to that of `shown`.
void copy_size(int shown, int reading);

}  // namespace tutti::tools
