// Preparation: finds the folder, the program and the store of a job before its ranks start, on a separate thread.
#pragma once

#include <atomic>
#include <functional>
#include <optional>
#include <string>
#include <thread>

#include "tools/run/ranks.hpp"
#include "transports/core/descriptor.hpp"

namespace tutti::tools {

/// Changes to `folder`, finds the program and the store, and sets job.file and the ranks' variables. Returns nothing,
/// or why the ranks cannot be started. The search for the store may take most of job.start_patience; it ends as soon as
/// `gone` returns true.
std::optional<Trouble> prepare_job(Job& job, const std::string& folder, const std::function<bool()>& gone);

/// Runs prepare_job() on a separate thread, because the agent has to send heartbeats meanwhile.
class Preparation {
 public:
  /// Throws Error{resource}.
  Preparation(Job job, std::string folder);
  /// Ends the search for the store, which may take some seconds.
  ~Preparation();
  Preparation(const Preparation&) = delete;
  Preparation& operator=(const Preparation&) = delete;

  /// A descriptor that is readable once the preparation has ended.
  int fd() const noexcept { return done_.fd(); }
  /// Blocks until the end. Returns nothing, and the prepared job in `job`, or why the ranks cannot be started.
  std::optional<Trouble> wait(Job& job);

 private:
  Job job_;
  std::optional<Trouble> trouble_;
  Descriptor done_;  ///< an eventfd
  std::atomic<bool> gone_ = false;
  std::thread thread_;
};

}  // namespace tutti::tools
