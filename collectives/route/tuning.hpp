// Tuning: where the measured rules of a machine are kept.
#pragma once

#include <string>

#include "transports/core/settings.hpp"

namespace tutti {

/// What tells machines apart that want other rules: "amd-epyc-7763-64-core-processor-2-cores".
std::string machine_key();

/// The file of measured rules: the setting `tuning`, or $XDG_CONFIG_HOME/tutti/<machine_key>.rules (~/.config
/// without that). Empty where there is no place for one, or where the setting is off.
std::string tuning_file(const Settings& settings);

/// Its text; empty where there is none. Throws Error{invalid} where the setting names a file that cannot be read.
std::string read_tuning(const Settings& settings);

}  // namespace tutti
