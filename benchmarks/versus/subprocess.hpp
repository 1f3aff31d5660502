// Subprocess: a program that is run to its end, and its output.
#pragma once

#include <map>
#include <string>
#include <vector>

namespace tutti::bench {

using Environment = std::map<std::string, std::string>;

struct Command {
  std::vector<std::string> words;  ///< the first is searched for in PATH
  Environment environment;         ///< added to this process's
};

struct Outcome {
  std::string out, err;
  int exit_code = 0;    ///< 128 + N after signal N, 127 if it could not be started
  bool silent = false;  ///< ended because it printed nothing for too long

  bool ok() const noexcept { return exit_code == 0 && !silent; }
  /// Why it failed, as a clause: the exit code and the first meaningful line of stderr (of stdout if that is empty).
  std::string why() const;
};

/// Runs a command. After `patience` seconds without output it gets SIGTERM, and SIGKILL 5 seconds later. It also gets
/// SIGTERM when this process ends. `show` passes its stderr on as it comes. Throws Error{resource}.
Outcome run_to_end(const Command& command, double patience, bool show = false);

/// The file that the shell would run for `name`, or an empty string.
std::string find_executable(const std::string& name);

}  // namespace tutti::bench
