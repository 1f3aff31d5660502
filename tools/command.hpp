// Command: what a folder tools/<name>/ adds to the `tutti` program.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace tutti::tools {

/// A folder tools/<name>/ with a command.cpp that defines `const Command <name>_command` (namespace
/// tutti::tools, external linkage) is part of `tutti`; nothing else needs an edit.
struct Command {
  std::string_view summary;  ///< one line for `tutti help`

  /// Runs with what stands after the command's name; returns the exit code. See options.hpp for parsing.
  /// What it throws becomes one line on stderr: exit code 2 for Error{invalid}, else 1.
  int (*run)(const std::vector<std::string>& arguments);
};

struct NamedCommand {
  std::string_view name;
  const Command* command;
};

/// All that are built in, by name (generated).
std::span<const NamedCommand> commands() noexcept;

/// The project's version (generated).
std::string_view version() noexcept;

}  // namespace tutti::tools
