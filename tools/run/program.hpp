// The program of the ranks: where it is, and why it cannot be executed.
#pragma once

#include <string>

namespace tutti::tools {

/// As find_executable(), and where PATH has no such program, the one in the working directory, as other launchers do.
/// Returns an empty string, with errno, if there is none that may be executed.
std::string find_program(const std::string& name);

/// True for a text without an interpreter of its own, which a shell is to run.
bool is_for_the_shell(const std::string& file);

/// True if the first line has `env` look for a program whose name ends with a carriage return.
bool names_no_program(const std::string& file);

/// A clause that says why execve() of `file` failed with `error`: "its interpreter /usr/bin/foo does not exist".
std::string why_not_executed(const std::string& file, int error);

}  // namespace tutti::tools
