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

/// Adds every setting as a flag, for example --lane-bytes or --lane_bytes. The source of a given one becomes "flag".
void add_settings(CLI::App& app, Settings& settings);

/// True for "--flag", "-f" and "-flag" of the command, also with "=value".
bool is_flag(const CLI::App& app, const std::string& argument);

/// Parses all arguments; "-flag" means "--flag", as mpirun has it. Throws Error{invalid} that names the nearest flag,
/// and Finished after --help.
void parse(CLI::App& app, const std::vector<std::string>& arguments);

/// Parses flags up to the first positional argument or "--". Returns the rest, the words of a program, unchanged.
std::vector<std::string> parse_before_program(CLI::App& app, const std::vector<std::string>& arguments);

/// Opens stdin, stdout and stderr if the caller has closed them, so that no file takes their numbers.
void fill_standard_descriptors();

/// Throws Error{invalid}: `what`, and a hint at --help.
[[noreturn]] void usage_error(const CLI::App& app, const std::string& what);

}  // namespace tutti::tools
