// Checks of what processes may do: see one another, wait precisely, open files, start more of themselves.
#include <fmt/format.h>
#include <sys/epoll.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/utsname.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstring>
#include <filesystem>

#include "tools/doctor/facts.hpp"
#include "tools/doctor/measurements.hpp"
#include "tools/doctor/verdicts.hpp"
#include "transports/core/host.hpp"
#include "transports/core/process.hpp"

namespace tutti::tools {
namespace {

using enum Check::Verdict;

/// A child that runs `body`; killed and waited for by the destructor.
class Child {
 public:
  template <class Body>
  explicit Child(Body&& body) : pid_(::fork()) {
    if (pid_ == 0) ::_exit(body());
  }
  Child(const Child&) = delete;
  Child& operator=(const Child&) = delete;
  ~Child() {
    if (pid_ <= 0) return;
    ::kill(pid_, SIGKILL);
    while (::waitpid(pid_, nullptr, 0) < 0 && errno == EINTR) {
    }
  }
  pid_t pid() const noexcept { return pid_; }
  /// The result of `body`; -1: it did not end well.
  int result() {
    int status = 0;
    while (::waitpid(pid_, &status, 0) < 0)
      if (errno != EINTR) return -1;
    pid_ = -1;
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
  }

 private:
  pid_t pid_;
};

/// Lets a process read a sibling, as ranks do, since a parent may read its child where siblings may not.
int try_attach() {
  static std::uint64_t number = 0;
  number = 4711;
  const auto at = reinterpret_cast<std::uintptr_t>(&number);
  const Child read([] { return ::pause(); });
  if (read.pid() < 0) return errno;
  Child reader([&] {
    std::uint64_t copy = 0;
    const int error = read_memory_of(read.pid(), at, &copy, sizeof copy);
    return error == 0 && copy != number ? EIO : error;
  });
  if (reader.pid() < 0) return errno;
  const int result = reader.result();
  return result < 0 ? EIO : result;
}

Check descriptor_check() {
  if (process_descriptor(::getpid())) return {good, "pidfd_open", "works", ""};
  return {slower, "pidfd_open", std::strerror(errno),
          "Update to Linux 5.3 or newer, or allow it in the seccomp filter: without it, deaths are noticed later."};
}

Check wait_check() {
  const Descriptor set(::epoll_create1(EPOLL_CLOEXEC));
  epoll_event event{};
  const timespec none{};
#ifdef SYS_epoll_pwait2
  if (::syscall(SYS_epoll_pwait2, set.fd(), &event, 1, &none, nullptr, 0) == 0)
    return {good, "epoll_pwait2", "works", ""};
#else
  static_cast<void>(event), static_cast<void>(none), errno = ENOSYS;
#endif
  return {slower, "epoll_pwait2", std::strerror(errno),
          "Update to Linux 5.11 or newer, or allow it in the seccomp filter: without it, short waits take 1 ms."};
}

rlimit limit_of(decltype(RLIMIT_NOFILE) kind) {
  rlimit limit{};
  return ::getrlimit(kind, &limit) == 0 ? limit : rlimit{RLIM_INFINITY, RLIM_INFINITY};
}

/// The least room among the limits of the user, the control group and the machine. Of the user, only the limit is
/// known, not how many processes count for it: all of the machine's at most.
Room room_for_processes() {
  Room room;
  const auto offer = [&](Number most, std::uint64_t now, const char* limit) {
    if (!most) return;
    const std::uint64_t more = *most > now ? *most - now : 0;
    if (room.limit.empty() || more < room.more) room = {more, limit};
  };
  const std::string load = line_of("/proc/loadavg");  // "0.1 0.2 0.3 1/234 5678": there are 234 threads
  const std::size_t slash = load.find('/');
  const std::uint64_t threads = slash == load.npos ? 0 : number_in(load.substr(slash + 1)).value_or(0);
  const GroupLimit group = group_limit(whole_text("/proc/self/cgroup"), "/sys/fs/cgroup", "pids");
  if (const rlim_t most = limit_of(RLIMIT_NPROC).rlim_cur; ::getuid() != 0 && most != RLIM_INFINITY)
    offer(most, threads, "ulimit -u");
  offer(group.most, group.now.value_or(0), "pids.max of the control group");
  offer(number_in(line_of("/proc/sys/kernel/threads-max")), threads, "kernel.threads-max");
  offer(number_in(line_of("/proc/sys/kernel/pid_max")), threads, "kernel.pid_max");
  return room;
}

}  // namespace

bool has_rdma_devices() {
  std::error_code none;
  const std::filesystem::directory_iterator devices("/sys/class/infiniband", none);
  return !none && devices != std::filesystem::directory_iterator();
}

std::vector<Check> process_checks() {
  utsname system{};
  ::uname(&system);
  const rlimit files = limit_of(RLIMIT_NOFILE), locked = limit_of(RLIMIT_MEMLOCK);
  return {judge_kernel(system.release),
          judge_attach(try_attach(), line_of("/proc/sys/kernel/yama/ptrace_scope")),
          descriptor_check(),
          wait_check(),
          judge_open_files(files.rlim_cur, files.rlim_max),
          judge_locked_memory(locked.rlim_cur, has_rdma_devices()),
          judge_processes(room_for_processes(), usable_cores())};
}

}  // namespace tutti::tools
