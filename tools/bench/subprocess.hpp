// Subprocess: a program that is run to its end, and what it printed.
#pragma once

#include <map>
#include <string>
#include <vector>

namespace tutti::bench {

using Environment = std::map<std::string, std::string>;

struct Command {
  std::vector<std::string> words;  ///< the first is looked for in PATH
  Environment environment;         ///< on top of this process's
};

struct Outcome {
  std::string out, err;
  int exit_code = 0;    ///< 128 + N after signal N, 127 where it could not be started
  bool silent = false;  ///< it printed nothing for too long, and was ended

  bool ok() const noexcept { return exit_code == 0 && !silent; }
  /// Why it failed, as a clause: its exit code and the first line on stderr that says something.
  std::string why() const;
};

/// Runs it; `patience` is how many seconds it may go without printing anything. It is told to end when this process
/// ends. `show` passes its stderr on as it comes.
Outcome run_to_end(const Command& command, double patience, bool show = false);

/// The file that the shell would run for `name`, "" if there is none.
std::string find_executable(const std::string& name);

}  // namespace tutti::bench
