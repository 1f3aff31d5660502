// Tuning: the file of a machine's measured rules.
#pragma once

#include <cstddef>
#include <string>

#include "tutti/settings.hpp"

namespace tutti {

inline constexpr std::size_t longest_tuning = 4 << 20;  // bytes of such a file

/// A name for machines that share measured rules: "amd-epyc-7763-64-core-processor-2-cores".
std::string machine_key();

/// The path of the measured rules: the setting `tuning`, or $XDG_CONFIG_HOME/tutti/<machine_key>.rules (~/.config if
/// the variable is not set). Empty if there is no such directory or the setting is off.
std::string tuning_file(const Settings& settings);

/// The file's text; empty if there is no file. Throws Error{invalid} if the setting names a file that cannot be read.
std::string read_tuning(const Settings& settings);

}  // namespace tutti
