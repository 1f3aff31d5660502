// The default folder of a run, on which all ranks agree.
#pragma once

#include <string>

#include "tutti/communicator.hpp"

namespace tutti::tools {

/// "runs/NAME-YYYYMMDD-HHMMSS" in local time, with a number appended if the folder exists. Of a file's name, only the
/// stem is used.
std::string new_run_folder(const std::string& name);

/// The new folder of one run, which no other process has: `wanted`, or that with a number appended. It is removed at
/// the end if nothing was put into it.
class ClaimedFolder {
 public:
  /// Throws Error{resource} if it cannot be made.
  explicit ClaimedFolder(const std::string& wanted);
  ~ClaimedFolder();
  ClaimedFolder(const ClaimedFolder&) = delete;
  ClaimedFolder& operator=(const ClaimedFolder&) = delete;

  const std::string& path() const noexcept { return path_; }

 private:
  std::string path_;
};

/// The newest run in runs/, or an empty string.
std::string newest_run_folder();

/// Rank 0's text on every rank. Collective; blocks.
std::string of_first_rank(const std::string& text, Communicator& world);

}  // namespace tutti::tools
