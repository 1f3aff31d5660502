// AnyOf: one descriptor for several.
#pragma once

#include <sys/epoll.h>

#include "transports/core/descriptor.hpp"
#include "tutti/status.hpp"

namespace tutti {

/// An epoll descriptor that is readable when one of the added descriptors is.
class AnyOf {
 public:
  /// Negative descriptors are ignored. Throws Error{resource}.
  void add(int fd) {
    if (fd < 0) return;
    if (!epoll_) epoll_ = Descriptor(epoll_create1(EPOLL_CLOEXEC));
    epoll_event event{};
    event.events = EPOLLIN;
    if (!epoll_ || epoll_ctl(epoll_.fd(), EPOLL_CTL_ADD, fd, &event) != 0)
      throw Error(Code::resource, "epoll failed: too many open files; raise the limit with `ulimit -n`");
  }
  int fd() const noexcept { return epoll_.fd(); }

 private:
  Descriptor epoll_;
};

}  // namespace tutti
