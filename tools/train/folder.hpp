// The folder of a run that was given none: its name, on which all ranks agree.
#pragma once

#include <string>

#include "collectives/api/communicator.hpp"

namespace tutti::tools {

/// "runs/NAME-YYYYMMDD-HHMMSS", by this host's time, with a number behind it where that is there already. Of a file's
/// name the folder and the ending are left out.
std::string new_run_folder(const std::string& name);

/// The newest folder in runs/; empty: there is none.
std::string newest_run_folder();

/// Rank 0's text on every rank. Collective; blocks.
std::string of_first_rank(const std::string& text, Communicator& world);

}  // namespace tutti::tools
