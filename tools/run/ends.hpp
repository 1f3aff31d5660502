// How ranks have ended, as exit codes and as words.
#pragma once

#include <string>

#include "tools/run/ranks.hpp"

namespace tutti::tools {

int exit_code_of(const Ended& end);
/// Returns "SIGTERM", for example.
std::string signal_name(int signal);
/// Returns what a message says after the rank: "was killed by signal 9 (SIGKILL)". `verb` is "were" for several ranks.
std::string how_it_ended(const Ended& end, const char* verb = "was");

}  // namespace tutti::tools
