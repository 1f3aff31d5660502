#include "tools/run/readiness.hpp"

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
}

const std::vector<Readiness::Ready>& Readiness::ready() {
  // More than one call holds wait for the next wake: epoll hands out its descriptors in turn.
  constexpr int most = 256;
  epoll_event events[most];
  ready_.clear();
  const int found = epoll_wait(set_.fd(), events, most, 0);
  for (int i = 0; i < found; ++i) ready_.push_back({events[i].data.u64, events[i].events});
  return ready_;
}

}  // namespace tutti::tools
