// One look at a thread of another process: where it is, and its stack.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <vector>

#include "collectives/doctor/memory_map.hpp"
#include "collectives/doctor/registers.hpp"

namespace tutti::doctor {

/// What the kernel tells of a thread.
struct Sample {
  bool known = false;                     ///< the addresses below are known
  std::uint64_t at = 0;                   ///< the next instruction
  std::uint64_t top = 0;                  ///< the top of the stack
  Registers registers = {};               ///< of a thread that runs: those that unwinding may need
  long call = -1;                         ///< the number of the system call in which it waits; -1: none
  std::uint64_t first = 0;                ///< the first argument of that call
  std::vector<std::uint64_t> stack = {};  ///< what is on the stack, from the top: at most 64 KiB
};

/// Looks at a thread that waits or is stopped, and does not disturb it. Not known if it runs, or if this process may
/// not look.
Sample look_at_waiting(pid_t thread);

/// Stops a thread that runs for a few microseconds to look at it (ptrace). Gives up after 100 ms. The thread goes on
/// when this returns, or when the calling thread ends. The kernel sends SIGCHLD to this process.
Sample look_at_running(pid_t thread, const std::vector<Mapping>& maps);

/// Reads the stack of a thread that look_at_waiting() has seen.
void read_stack(pid_t thread, const std::vector<Mapping>& maps, Sample& sample);

}  // namespace tutti::doctor
