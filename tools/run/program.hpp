// The program of the ranks: where it is, and why it cannot be executed.
#pragma once

#include <string>

namespace tutti::tools {

/// Works like find_executable(). If PATH has no such program, also searches the working directory, as other launchers
/// do. Returns an empty string, and sets errno, if no file may be executed.
std::string find_program(const std::string& name);

/// Returns true for a text file without an interpreter line, which a shell has to run.
bool is_for_the_shell(const std::string& file);

/// Returns true if the first line makes `env` search for a program whose name ends with a carriage return.
bool names_no_program(const std::string& file);

/// Returns a clause why execve() of `file` failed with `error`: "its interpreter /usr/bin/foo does not exist".
std::string why_not_executed(const std::string& file, int error);

}  // namespace tutti::tools
