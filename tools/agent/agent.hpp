// The agent: starts ranks on its host for a launcher on another host.
#pragma once

namespace tutti::tools {

/// Exchanges frames with the launcher over stdin and stdout. Ends all started processes when the launcher says so, has
/// gone or is silent. Returns the exit code.
int run_agent();

}  // namespace tutti::tools
