#include "tools/run/readiness.hpp"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <string>

#include "tutti/status.hpp"

namespace tutti::tools {

Readiness::Readiness() : set_(epoll_create1(EPOLL_CLOEXEC)) {
  if (!set_) throw Error(Code::resource, std::string("epoll_create1: ") + std::strerror(errno));
}

void Readiness::watch(int fd, std::uint32_t before, std::uint32_t events, std::uint64_t tag) {
  if (fd < 0 || before == events) return;
  epoll_event event = {};
  event.events = events;
  event.data.u64 = tag;
  const int change = before == 0 ? EPOLL_CTL_ADD : events == 0 ? EPOLL_CTL_DEL : EPOLL_CTL_MOD;
  if (epoll_ctl(set_.fd(), change, fd, &event) != 0)
    throw Error(Code::resource, std::string("epoll_ctl: ") + std::strerror(errno));
  if (before == 0) ++watched_;
  if (events == 0) --watched_;
}

const std::vector<Readiness::Ready>& Readiness::ready() {
  // Gets all ready descriptors: a host counts as silent only if everything that it has sent was read.
  events_.resize(std::max<std::size_t>(watched_, 1));
  ready_.clear();
  const int found = epoll_wait(set_.fd(), events_.data(), static_cast<int>(events_.size()), 0);
  for (int i = 0; i < found; ++i) {
    const epoll_event& event = events_[static_cast<std::size_t>(i)];
    ready_.push_back({event.data.u64, event.events});
  }
  return ready_;
}

}  // namespace tutti::tools
