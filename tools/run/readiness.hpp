// Readiness: which of many descriptors can be read or written, at a cost that depends on those that can, not on all.
#pragma once

#include <sys/epoll.h>

#include <cstdint>
#include <vector>

#include "transports/core/descriptor.hpp"

namespace tutti::tools {

/// An epoll set. Its own descriptor is readable while any of those in it is ready.
class Readiness {
 public:
  /// Throws Error{resource}.
  Readiness();

  int fd() const noexcept { return set_.fd(); }
  /// Watches `fd` for `events` (EPOLLIN, EPOLLOUT), instead of for `before`; 0 stands for not at all, so that not even
  /// its end is told of. `tag` is what ready() says of it. A descriptor is let go before it is closed.
  void watch(int fd, std::uint32_t before, std::uint32_t events, std::uint64_t tag);

  struct Ready {
    std::uint64_t tag = 0;
    std::uint32_t events = 0;
  };
  /// All that are ready now, each once.
  const std::vector<Ready>& ready();

 private:
  Descriptor set_;
  std::size_t watched_ = 0;
  std::vector<epoll_event> events_;
  std::vector<Ready> ready_;
};

}  // namespace tutti::tools
