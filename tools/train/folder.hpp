// The default folder of a run, on which all ranks agree.
#pragma once

#include <string>

#include "tutti/communicator.hpp"

namespace tutti::tools {

/// "runs/NAME-YYYYMMDD-HHMMSS" in local time, with a number appended if the folder exists. Of a file's name, only the
/// stem is used.
std::string new_run_folder(const std::string& name);

/// The newest run in runs/, or an empty string.
std::string newest_run_folder();

/// Rank 0's text on every rank. Collective; blocks.
std::string of_first_rank(const std::string& text, Communicator& world);

}  // namespace tutti::tools
