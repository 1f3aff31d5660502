#include "transports/core/process.hpp"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <map>
#include <mutex>
#include <string_view>
#include <utility>

#include "tutti/fork.hpp"

namespace tutti {

Descriptor process_descriptor(pid_t number) {
#ifdef SYS_pidfd_open
  return Descriptor(static_cast<int>(::syscall(SYS_pidfd_open, number, 0)));  // pidfds are always close-on-exec
#else
  static_cast<void>(number);
  return Descriptor();
#endif
}

std::uint64_t pid_space() noexcept {
  struct stat info {};
  return ::stat("/proc/self/ns/pid", &info) == 0 ? info.st_ino : 0;
}

pid_t process_behind(int descriptor) noexcept {
  char path[40], text[1024];
  std::snprintf(path, sizeof path, "/proc/self/fdinfo/%d", descriptor);
  const Descriptor file(::open(path, O_RDONLY | O_CLOEXEC));
  const ssize_t n = file ? ::read(file.fd(), text, sizeof text - 1) : -1;
  if (n <= 0) return 0;
  text[n] = '\0';
  const char* const line = std::strstr(text, "Pid:");
  const long number = line == nullptr ? 0 : std::strtol(line + 4, nullptr, 10);
  return number > 0 ? static_cast<pid_t>(number) : 0;
}

bool process_lives(pid_t number, int descriptor) noexcept {
  if (descriptor < 0) return ::kill(number, 0) == 0 || errno == EPERM;
  pollfd death{descriptor, POLLIN, 0};
  return ::poll(&death, 1, 0) <= 0;
}

namespace {

/// The fields of /proc/NUMBER/stat after the name, which may contain any character: "R 1 ..."; empty if the process is
/// not visible.
std::string_view status_fields(pid_t number, char (&text)[1024]) noexcept {
  char path[32];
  std::snprintf(path, sizeof path, "/proc/%d/stat", static_cast<int>(number));
  const Descriptor file(::open(path, O_RDONLY | O_CLOEXEC));
  const ssize_t n = file ? ::read(file.fd(), text, sizeof text - 1) : -1;
  if (n <= 0) return {};
  text[n] = '\0';
  const std::string_view stat(text, static_cast<std::size_t>(n));
  const std::size_t name_end = stat.rfind(')');
  return name_end == std::string_view::npos || name_end + 2 >= stat.size() ? std::string_view()
                                                                           : stat.substr(name_end + 2);
}

}  // namespace

bool process_runs(pid_t number) noexcept {
  char text[1024];
  const std::string_view fields = status_fields(number, text);
  // T, t: stopped or traced; Z, X, x: ended. In every other state the process runs, or waits for a core or an event. An
  // emulator may write a 0 as the state.
  return !fields.empty() && std::string_view("TtZXx").find(fields.front()) == std::string_view::npos;
}

std::uint64_t process_start(pid_t number) noexcept {
  constexpr int start_field = 22, first_field = 3;  // as proc(5) counts them
  char text[1024];
  std::string_view fields = status_fields(number, text);
  for (int field = first_field; field < start_field && !fields.empty(); ++field)
    fields.remove_prefix(std::min(fields.find(' '), fields.size() - 1) + 1);
  return fields.empty() ? 0 : std::strtoull(fields.data(), nullptr, 10);
}

int read_memory_of(pid_t process, std::uint64_t at, void* into, std::size_t bytes) noexcept {
  const iovec here{into, bytes}, there{reinterpret_cast<void*>(static_cast<std::uintptr_t>(at)), bytes};
  const ssize_t n = ::process_vm_readv(process, &here, 1, &there, 1, 0);
  return n < 0 ? errno : static_cast<std::size_t>(n) < bytes ? EFAULT : 0;
}

std::shared_ptr<const Process> Process::of(pid_t number) {
  static std::mutex mutex;
  static auto& known = *new std::map<std::pair<std::uint32_t, pid_t>, std::weak_ptr<const Process>>;
  const std::lock_guard lock(mutex);
  std::erase_if(known, [](const auto& entry) { return entry.second.expired(); });
  // The key has the fork generation, because a child has none of its parent's descriptors.
  auto& entry = known[{fork_generation(), number}];
  auto process = entry.lock();
  if (!process || !process->lives())  // the number may have been reused
    entry = process = std::make_shared<const Process>(number);
  return process;
}

}  // namespace tutti
