// Preparation: finds folder, program and store of a job before its ranks start, on a thread of its own.
#pragma once

#include <atomic>
#include <functional>
#include <optional>
#include <string>
#include <thread>

#include "tools/run/ranks.hpp"
#include "transports/core/descriptor.hpp"

namespace tutti::tools {

/// Enters `folder`, finds the program and the store, and sets job.file and the ranks' variables. Returns why the ranks
/// cannot be started, or nothing. The search for the store may take most of job.start_patience; it ends once `gone`
/// returns true.
std::optional<Trouble> prepare_job(Job& job, const std::string& folder, const std::function<bool()>& gone);

/// prepare_job() on a thread of its own, as the heartbeat goes on meanwhile.
class Preparation {
 public:
  /// Throws Error{resource}.
  Preparation(Job job, std::string folder);
  /// Ends the search for the store, which may take some seconds.
  ~Preparation();
  Preparation(const Preparation&) = delete;
  Preparation& operator=(const Preparation&) = delete;

  /// Readable once it has ended.
  int fd() const noexcept { return done_.fd(); }
  /// Waits for the end. Returns why the ranks cannot be started, or nothing; the job is then prepared.
  std::optional<Trouble> wait(Job& job);

 private:
  Job job_;
  std::optional<Trouble> trouble_;
  Descriptor done_;  ///< an eventfd
  std::atomic<bool> gone_ = false;
  std::thread thread_;
};

}  // namespace tutti::tools
