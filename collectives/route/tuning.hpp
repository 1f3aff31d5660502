// Tuning: the file of a machine's measured rules.
#pragma once

#include <cstddef>
#include <string>

#include "tutti/settings.hpp"

namespace tutti {

inline constexpr std::size_t longest_tuning = 4 << 20;  // most bytes of such a file

/// A name for machines that share measured rules: "amd-epyc-7763-64-core-processor-2-cores".
std::string machine_key();

/// The path of the measured rules: the setting `tuning` or, if that is auto, $XDG_CONFIG_HOME/tutti/<machine_key>.rules
/// (~/.config if the variable is not set). Empty if the setting is off, or if neither variable nor $HOME is set.
std::string tuning_file(const Settings& settings);

/// The text of tuning_file(); empty if the setting is off, or auto and there is no file. Throws Error{invalid} if the
/// file cannot be read.
std::string read_tuning(const Settings& settings);

}  // namespace tutti
