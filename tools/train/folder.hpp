// The default folder of a run, on which all ranks agree.
#pragma once

#include <string>

#include "tutti/communicator.hpp"

namespace tutti::tools {

/// Returns "runs/NAME-YYYYMMDD-HHMMSS" in local time, with a number appended if the folder exists. If `name` is that of
/// a file, uses its stem.
std::string new_run_folder(const std::string& name);

/// The new folder of one run, which no other process uses: `wanted`, or `wanted` with a number appended. The destructor
/// removes the folder if nothing was put into it.
class ClaimedFolder {
 public:
  /// Makes the folder. Throws Error{resource} if that fails.
  explicit ClaimedFolder(const std::string& wanted);
  ~ClaimedFolder();
  ClaimedFolder(const ClaimedFolder&) = delete;
  ClaimedFolder& operator=(const ClaimedFolder&) = delete;

  const std::string& path() const noexcept { return path_; }

 private:
  std::string path_;
};

/// Returns the newest run in runs/, or an empty string.
std::string newest_run_folder();

/// Returns rank 0's text on every rank. Collective; blocks.
std::string of_first_rank(const std::string& text, Communicator& world);

}  // namespace tutti::tools
