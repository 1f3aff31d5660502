// Process: watches whether another process of this host is alive.
#pragma once

#include <sys/types.h>

#include <cstddef>
#include <cstdint>
#include <memory>

#include "transports/core/descriptor.hpp"

namespace tutti {

/// A pidfd, readable once the process has ended; empty if the kernel is older than 5.3 or there is no such process.
Descriptor process_descriptor(pid_t number);

/// Identifies the PID namespace of this process; 0: unknown.
std::uint64_t pid_space() noexcept;

/// The number that the process behind a pidfd has in this PID namespace; 0: it is not visible here, or has ended.
pid_t process_behind(int descriptor) noexcept;

/// True if the process is alive. Checks its pidfd `descriptor`, or its number if there is no pidfd (-1).
bool process_lives(pid_t number, int descriptor) noexcept;

/// True if the process runs, or waits for a core or an event. False if it is stopped (SIGSTOP, a debugger), has ended
/// or is not visible.
bool process_runs(pid_t number) noexcept;

/// When the process was started, in clock ticks since the host started; 0: it is not visible. Number, PID namespace and
/// start together identify a process until the host restarts.
std::uint64_t process_start(pid_t number) noexcept;

/// Copies from address `at` of another process (process_vm_readv, cross memory attach). Returns 0 or an errno; EFAULT
/// if not all of the range is mapped.
int read_memory_of(pid_t process, std::uint64_t at, void* into, std::size_t bytes) noexcept;

/// A watched process. It counts as alive until its files are closed, and thus its device resources. Its main thread may
/// end earlier; its process number stays in use until its parent reaps it. Threads: any.
class Process {
 public:
  explicit Process(pid_t number) : number_(number), death_(process_descriptor(number)) {}
  /// Returns one shared object per process, so that any number of watchers needs one descriptor.
  static std::shared_ptr<const Process> of(pid_t number);

  bool lives() const noexcept { return process_lives(number_, death_.fd()); }

 private:
  pid_t number_;
  Descriptor death_;  // empty: the process number is checked instead
};

}  // namespace tutti
