// Terminals for ranks whose output goes to a terminal: they see one, so they write line by line, in colour and with
// progress bars, although the launcher reads what they write.
#pragma once

#include <optional>

#include "tools/run/spawn.hpp"
#include "transports/core/descriptor.hpp"

namespace tutti::tools {

/// A pseudo-terminal of the size of the launcher's terminal, through which bytes pass unchanged.
struct Terminal {
  Descriptor reading;
  Inherited writing;
};

/// `shown` is the launcher's terminal. Returns nothing if there are no more pseudo-terminals.
std::optional<Terminal> make_terminal(int shown);

/// Gives the pseudo-terminal behind `reading` the size of `shown`.
void copy_size(int shown, int reading);

}  // namespace tutti::tools
