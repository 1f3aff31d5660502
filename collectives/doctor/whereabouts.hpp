// What a process of this host is doing: as far as /proc and ptrace tell, without its help.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <string>

namespace tutti {

/// What the main thread of a process does now. Texts are printable and in one line. A process that this one may not
/// inspect (another user's, Yama) has a state, and fewer texts.
struct Whereabouts {
  enum class State : std::uint8_t { unknown, gone, zombie, stopped, traced, running, sleeping, uninterruptible };
  State state = State::unknown;
  /// The innermost function of the program itself, not of libc, libtutti or the loader: "main+0x41 in a.out", or
  /// "Python". Empty: unknown.
  std::string place = {};
  std::string call = {};     ///< the system call in which it waits: "clock_nanosleep", "futex", "read"; empty: none
  std::string through = {};  ///< the library function that `place` has called: "sleep in libc.so.6"; empty: unknown
  std::string file = {};     ///< what that system call waits for: "a pipe", "a socket", "/data/part-7"; empty: unknown
  std::string beside =
      {};  ///< another thread that runs while the main thread waits: "thread 71 (loader) computes at ..."
};

/// Looks at a process of this host; takes milliseconds, at most half a second. A process that waits or is stopped is
/// not disturbed; one that runs is stopped for some microseconds. Never throws for a lack of permission. This process
/// may get a SIGCHLD.
Whereabouts whereabouts_of(pid_t pid);

/// The state alone, by one read of /proc.
Whereabouts::State process_state(pid_t pid);

/// A clause about the process: "is gone", "is stopped by a signal", "computes at step()+0x1c in train", "sleeps in
/// clock_nanosleep, called from main+0x41 in a.out through sleep in libc.so.6".
std::string describe(const Whereabouts& whereabouts);

}  // namespace tutti
