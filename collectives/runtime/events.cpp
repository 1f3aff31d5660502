#include "collectives/runtime/events.hpp"

#include <poll.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstring>
#include <string>

#include "tutti/status.hpp"

namespace tutti {

int checked(int fd, const char* what) {
  if (fd >= 0) return fd;
  throw Error(Code::resource,
              std::string(what) + " failed: " + std::strerror(errno) + "; raise the limit of open files");
}

void watch_for(int epoll, int fd, std::uint32_t events) {
  if (fd < 0) return;
  epoll_event event{events, {.fd = fd}};
  checked(epoll_ctl(epoll, EPOLL_CTL_ADD, fd, &event), "epoll_ctl");
}

// Kernels before 5.11 lack epoll_pwait2(). There ppoll() waits, and epoll_wait() reads the events.
int wait_for_events(int epoll, std::span<epoll_event> events, std::chrono::nanoseconds limit) noexcept {
  const auto seconds = std::chrono::floor<std::chrono::seconds>(limit);
  const timespec timeout{seconds.count(), (limit - seconds).count()};
  const int most = static_cast<int>(events.size());
#ifdef SYS_epoll_pwait2
  static std::atomic<bool> refused = false;
  if (!refused.load(std::memory_order_relaxed)) {
    const long n = ::syscall(SYS_epoll_pwait2, epoll, events.data(), most, &timeout, nullptr, 0);
    if (n >= 0 || errno == EINTR) return static_cast<int>(n);
    refused.store(true, std::memory_order_relaxed);
  }
#endif
  pollfd bell{epoll, POLLIN, 0};
  return ::ppoll(&bell, 1, &timeout, nullptr) > 0 ? ::epoll_wait(epoll, events.data(), most, 0) : 0;
}

void signal(int event) noexcept {
  const std::uint64_t one = 1;
  [[maybe_unused]] const auto written = ::write(event, &one, sizeof one);
}

void drain(int event) noexcept {
  std::uint64_t count = 0;
  [[maybe_unused]] const auto got = ::read(event, &count, sizeof count);
}

}  // namespace tutti
