// Readiness: finds the descriptors that are ready, at a cost that depends on their number, not on how many are watched.
#pragma once

#include <sys/epoll.h>

#include <cstdint>
#include <vector>

#include "transports/core/descriptor.hpp"

namespace tutti::tools {

/// An epoll set. Its own descriptor is readable while any descriptor in the set is ready.
class Readiness {
 public:
  /// Throws Error{resource}.
  Readiness();

  int fd() const noexcept { return set_.fd(); }
  /// Watches `fd` for `events` (EPOLLIN, EPOLLOUT); until now it was watched for `before`. 0 means not at all, not even
  /// for its end. ready() returns `tag` for it. Call this with `events` 0 before the descriptor is closed.
  void watch(int fd, std::uint32_t before, std::uint32_t events, std::uint64_t tag);

  struct Ready {
    std::uint64_t tag = 0;
    std::uint32_t events = 0;
  };
  /// Returns all descriptors that are ready now, each once.
  const std::vector<Ready>& ready();

 private:
  Descriptor set_;
  std::size_t watched_ = 0;
  std::vector<epoll_event> events_;
  std::vector<Ready> ready_;
};

}  // namespace tutti::tools
