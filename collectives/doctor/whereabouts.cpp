#include "collectives/doctor/whereabouts.hpp"

#include <signal.h>

#include <algorithm>
#include <charconv>
#include <chrono>
#include <condition_variable>
#include <filesystem>
#include <memory>
#include <mutex>
#include <system_error>
#include <utility>
#include <vector>

#include "collectives/doctor/memory_map.hpp"
#include "collectives/doctor/proc_text.hpp"
#include "collectives/doctor/sample.hpp"
#include "collectives/doctor/stack.hpp"
#include "collectives/doctor/system_calls.hpp"
#include "transports/core/printable.hpp"
#include "tutti/status.hpp"
#include "tutti/threads.hpp"

namespace tutti {
namespace {

using namespace doctor;
using State = Whereabouts::State;

constexpr std::size_t most_map = 16 << 20, most_threads = 512;
constexpr std::chrono::milliseconds patience(500);
constexpr int most_looks = 3;  // at a process that wakes up or falls asleep meanwhile

/// The state in the text of a /proc/PID/stat, whose name in parentheses may have any characters.
State parse_state(std::string_view text) noexcept {
  const std::size_t name_end = text.rfind(')');
  if (name_end == text.npos || name_end + 2 >= text.size()) return State::unknown;
  switch (text[name_end + 2]) {
    case 'R': return State::running;
    case 'S':
    case 'I': return State::sleeping;
    case 'D':
    case 'P': return State::uninterruptible;
    case 'T': return State::stopped;
    case 't': return State::traced;
    case 'Z': return State::zombie;
    case 'X':
    case 'x': return State::gone;
    default: return State::unknown;
  }
}

/// A process that waits for its memory map without end would make a reader of that map wait, too.
bool may_read_memory(State state, const std::string& call) noexcept {
  constexpr std::string_view harmless[] = {"read",     "readv", "pread64", "write",     "writev",
                                           "pwrite64", "fsync", "flock",   "fdatasync", "open",
                                           "openat",   "stat",  "close",   "newfstatat"};
  return state != State::uninterruptible || std::ranges::find(harmless, call) != std::end(harmless);
}

bool has_file(const std::string& call) noexcept {
  constexpr std::string_view calls[] = {
      "read",     "readv", "pread64", "write",   "writev",   "pwrite64",  "recvfrom", "recvmsg", "sendto", "sendmsg",
      "recvmmsg", "fsync", "accept",  "accept4", "sendmmsg", "fdatasync", "connect",  "flock",   "ioctl"};
  return std::ranges::find(calls, call) != std::end(calls);
}

/// "a pipe" for "pipe:[1234]".
std::string file_behind(pid_t thread, std::uint64_t descriptor) {
  const std::string target = link_of(proc_path(thread, "fd/" + std::to_string(descriptor)));
  if (target.starts_with('/')) return printable(target, 200);
  if (target.starts_with("pipe:")) return "a pipe";
  return target.starts_with("socket:") ? "a socket" : std::string();
}

/// The kernel's own function in which a thread waits; it is told of every process of the same user.
std::string kernel_function(pid_t thread) {
  const std::string text = text_of(proc_path(thread, "wchan"), 100);
  return text.empty() || text == "0" ? std::string() : "the kernel's " + printable(text);
}

/// Looks at one thread in the given state.
void look_at(pid_t thread, Whereabouts& found) {
  Sample sample;
  std::vector<Mapping> maps;
  const auto read_maps = [&] { maps = parse_maps(text_of(proc_path(thread, "maps"), most_map)); };
  for (int look = 0; look < most_looks && !sample.known; ++look) {
    found.state = process_state(thread);
    if (found.state == State::gone || found.state == State::zombie) return;
    if (found.state == State::running) {
      read_maps();
      sample = look_at_running(thread, maps);
    } else {
      sample = look_at_waiting(thread);
      const Sample again = sample.known ? look_at_waiting(thread) : Sample{};
      if (again.top != sample.top || again.call != sample.call) sample = {};
    }
  }
  const bool waits = found.state != State::running && found.state != State::unknown;
  if (waits && sample.call >= 0) found.call = call_name(sample.call);
  if (waits && found.call.empty() && !sample.known && found.state != State::stopped)
    found.call = kernel_function(thread);
  if (has_file(found.call)) found.file = file_behind(thread, sample.first);
  if (!sample.known || !may_read_memory(found.state, found.call)) return;
  if (waits) {
    read_maps();
    read_stack(thread, maps, sample);
  }
  auto [function, through, innermost] = place_of(thread, maps, sample);
  // A call that was interrupted, as by SIGSTOP, goes on under this name.
  if (found.call == "restart_syscall" && !innermost.empty()) found.call = innermost;
  found.place = std::move(function);
  found.through = std::move(through);
}

std::vector<pid_t> threads_of(pid_t pid) {
  std::vector<pid_t> threads;
  std::error_code error;
  for (std::filesystem::directory_iterator task(proc_path(pid, "task"), error), end;
       !error && task != end && threads.size() < most_threads; task.increment(error)) {
    const std::string name = task->path().filename();
    pid_t number = 0;
    if (std::from_chars(name.data(), name.data() + name.size(), number).ec == std::errc() && number != pid)
      threads.push_back(number);
  }
  return threads;
}

std::string thread_text(pid_t thread, const Whereabouts& whereabouts) {
  std::string name = text_of(proc_path(thread, "comm"), 64);
  while (name.ends_with('\n')) name.pop_back();
  return "thread " + std::to_string(thread) + " (" + printable(name) + ") " + describe(whereabouts);
}

/// Looks at the main thread, and where that has nothing to do, at another one that runs.
Whereabouts inspect(pid_t pid) {
  Whereabouts found;
  look_at(pid, found);
  const bool has_ended = found.state == State::zombie;
  if (!has_ended && found.call != "futex" && found.call != "futex_waitv") return found;
  for (const pid_t thread : threads_of(pid)) {
    const State state = process_state(thread);
    if (state == State::running) {
      Whereabouts other;
      look_at(thread, other);
      if (other.state == State::running) {
        found.beside = thread_text(thread, other);
        return found;
      }
    }
    if (has_ended && state != State::zombie && state != State::gone) found.beside = "another thread is there";
  }
  return found;
}

/// What an inspection has found, shared with the thread that inspects.
struct Inspection {
  std::mutex mutex;
  std::condition_variable changed;
  bool done = false;
  Whereabouts found;
};

}  // namespace

State process_state(pid_t pid) {
  int error = 0;
  const std::string text = text_of(proc_path(pid, "stat"), 4096, &error);
  return !text.empty() ? parse_state(text) : error == ENOENT || error == ESRCH ? State::gone : State::unknown;
}

Whereabouts whereabouts_of(pid_t pid) {
  if (pid <= 0) return {.state = State::gone};
  const State state = process_state(pid);
  if (state == State::gone || state == State::unknown) return {.state = state};
  // A thread of its own: what it traces is released when it ends, and if the kernel lets it wait, this one goes on.
  const auto inspection = std::make_shared<Inspection>();
  std::thread thread;
  try {
    thread = start_thread("looks at a process", [inspection, pid] {
      sigset_t all;  // signals are left to the program's own threads
      sigfillset(&all);
      pthread_sigmask(SIG_SETMASK, &all, nullptr);
      Whereabouts found;
      try {
        found = inspect(pid);
      } catch (const std::exception&) {
        // without memory, it has no texts
      }
      const std::lock_guard lock(inspection->mutex);
      inspection->found = std::move(found);
      inspection->done = true;
      inspection->changed.notify_one();
    });
  } catch (const Error&) {
    return {.state = state};
  }
  std::unique_lock lock(inspection->mutex);
  const bool done = inspection->changed.wait_for(lock, patience, [&] { return inspection->done; });
  Whereabouts found = done ? inspection->found : Whereabouts{};
  lock.unlock();
  done ? thread.join() : thread.detach();
  if (found.state == State::unknown) found.state = state;
  return found;
}

namespace {

std::string with_file(const Whereabouts& it) { return it.file.empty() ? it.call : it.call + " of " + it.file; }

/// "called from main+0x41 in a.out through sleep in libc.so.6", led in by `before`.
std::string caller(const Whereabouts& it, std::string_view before) {
  if (it.place.empty()) return {};
  const bool is_known = it.through.empty() || it.through.starts_with(it.call + " in ");  // the call's own function
  return std::string(before) + it.place + (is_known ? "" : " through " + it.through);
}

constexpr std::string_view hidden = " (this process may not see where)";

std::string waiting(const Whereabouts& it, std::string_view verb) {
  if (it.call.empty() && it.place.empty()) return std::string(verb) + std::string(hidden);
  if (it.call.empty()) return std::string(verb) + caller(it, ", called from ");
  return std::string(verb) + " in " + with_file(it) + caller(it, ", called from ");
}

std::string main_clause(const Whereabouts& it) {
  const bool is_pause = it.call == "nanosleep" || it.call == "clock_nanosleep" || it.call == "pause";
  switch (it.state) {
    case State::gone: return "is gone";
    case State::zombie:
      return it.beside.empty() ? "has ended, and its parent has not asked for its exit code"
                               : "has ended its main thread";
    case State::stopped:
      return it.call.empty() ? "is stopped by a signal" + caller(it, ", at ")
                             : "is stopped by a signal, in " + with_file(it) + caller(it, ", called from ");
    case State::traced:
      return it.call.empty() ? "is held by a debugger" + caller(it, ", at ") : waiting(it, "is held by a debugger,");
    case State::running:
      if (it.place.empty()) return "computes" + std::string(hidden);
      if (it.through.empty()) return it.place == "Python" ? "computes in Python" : "computes at " + it.place;
      return "is in " + it.through + ", called from " + it.place;
    case State::sleeping: return waiting(it, is_pause ? "sleeps" : "waits");
    case State::uninterruptible: return waiting(it, "waits for the kernel, and no signal can end that,");
    case State::unknown: break;
  }
  return "cannot be looked at";
}

}  // namespace

std::string describe(const Whereabouts& whereabouts) {
  const std::string text = main_clause(whereabouts);
  return whereabouts.beside.empty() ? text : text + ", while its " + whereabouts.beside;
}

}  // namespace tutti
