// Parsing of a command's flags: CLI11, with one clear line and the nearest flag where something is wrong.
#pragma once

#include <CLI/App.hpp>
#include <string>
#include <vector>

#include "transports/core/settings.hpp"

namespace tutti::tools {

/// Thrown where nothing is left to do, after --help; caught by main().
struct Finished {
  int exit_code = 0;
};

/// Every setting as a flag: --lane-bytes and --lane_bytes. A given one is in settings.sources as "flag".
void add_settings(CLI::App& app, Settings& settings);

/// Parses all arguments; "-np" stands for "--np". Throws Error{invalid} naming the nearest flag; Finished after --help.
void parse(CLI::App& app, const std::vector<std::string>& arguments);

/// Parses flags up to the first argument that is none, or up to "--"; returns that argument and all behind it as they
/// are.
std::vector<std::string> parse_before_program(CLI::App& app, const std::vector<std::string>& arguments);

/// Fails like a wrong flag: one line, exit code 2.
[[noreturn]] void usage_error(const CLI::App& app, const std::string& what);

}  // namespace tutti::tools
