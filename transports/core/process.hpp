// Process: another process of this host, and whether it still lives.
#pragma once

#include <sys/types.h>

#include <cstddef>
#include <cstdint>
#include <memory>

#include "transports/core/descriptor.hpp"

namespace tutti {

/// A descriptor that can be read once the process has ended; none where the kernel is older than 5.3 or there is no
/// such process.
Descriptor process_descriptor(pid_t number);

/// Whether it has not ended: by such a descriptor, or where there is none (-1) by its number.
bool process_lives(pid_t number, int descriptor) noexcept;

/// Whether it is seen to run, or to be about to: not where it is stopped (SIGSTOP, a debugger), has ended or is hidden.
bool process_runs(pid_t number) noexcept;

/// Copies what lies at `at` in that process's own memory, by the kernel (cross memory attach). 0, or why not: an errno.
/// EFAULT where not all of it is there.
int read_memory_of(pid_t process, std::uint64_t at, void* into, std::size_t bytes) noexcept;

/// It lives while it has its files, and with them what it had on devices: longer than its first thread, and shorter
/// than its number where nobody asks for its exit code. Threads: any.
class Process {
 public:
  explicit Process(pid_t number) : number_(number), death_(process_descriptor(number)) {}
  /// One for all that ask while somebody has it, so that a process costs one descriptor however many watch it.
  static std::shared_ptr<const Process> of(pid_t number);

  bool lives() const noexcept { return process_lives(number_, death_.fd()); }

 private:
  pid_t number_;
  Descriptor death_;  // none: the number is asked for
};

}  // namespace tutti
