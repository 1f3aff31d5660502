// Parsing of a command's flags with CLI11. An error is one line that names the nearest flag.
#pragma once

#include <CLI/App.hpp>
#include <string>
#include <vector>

#include "tutti/settings.hpp"

namespace tutti::tools {

/// Thrown after --help to end the command; main() catches it.
struct Finished {
  int exit_code = 0;
};

/// Adds every setting as a flag, for example --lane-bytes or --lane_bytes. A parsed flag has the source "flag". Help
/// shows the flags under the heading `group`, and not at all if that is empty.
void add_settings(CLI::App& app, Settings& settings, const std::string& group = "Settings (TUTTI_*)");

/// Returns true if the argument is a flag of the command: "--flag", "-f" or "-flag", also with "=value".
bool is_flag(const CLI::App& app, const std::string& argument);

/// Parses all arguments; as with mpirun, "-flag" means "--flag". Throws Error{invalid} that names the nearest flag, and
/// Finished after --help.
void parse(CLI::App& app, const std::vector<std::string>& arguments);

/// Parses flags up to the first positional argument or "--". Returns the rest unchanged: a program and its arguments.
std::vector<std::string> parse_before_program(CLI::App& app, const std::vector<std::string>& arguments);

/// Opens those of stdin, stdout and stderr that the caller has closed, so that no other file gets their numbers.
void fill_standard_descriptors();

/// Throws Error{invalid} with the text `what` and a reference to --help.
[[noreturn]] void usage_error(const CLI::App& app, const std::string& what);

}  // namespace tutti::tools
