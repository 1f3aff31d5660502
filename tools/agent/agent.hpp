// The agent of a launcher on one host.
#pragma once

namespace tutti::tools {

/// Says the greeting on stdout, is told on stdin what to run, and ends all that it has started when told so, or when
/// the launcher has gone or is silent. Returns the exit code.
int run_agent();

}  // namespace tutti::tools
