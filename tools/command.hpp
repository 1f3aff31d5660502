// Command: a subcommand of `tutti`, defined in a folder tools/<name>/.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace tutti::tools {

/// A folder tools/<name>/ whose command.cpp defines `const Command <name>_command` (namespace tutti::tools, external
/// linkage) is part of `tutti`; no other file has to be edited.
struct Command {
  std::string_view summary;  ///< one line for `tutti help`

  /// Runs the command with the arguments after its name, and returns the exit code. See options.hpp for parsing. main()
  /// prints an exception as one line on stderr; the exit code is 2 for Error{invalid}, otherwise 1.
  int (*run)(const std::vector<std::string>& arguments);
};

struct NamedCommand {
  std::string_view name;
  const Command* command;
};

/// All built-in commands, sorted by name (generated).
std::span<const NamedCommand> commands() noexcept;

/// The project's version (generated).
std::string_view version() noexcept;

}  // namespace tutti::tools
