// Descriptor in a program whose own standard descriptors are closed.
#include "transports/core/descriptor.hpp"

#include <gtest/gtest.h>
#include <sys/eventfd.h>
#include <sys/wait.h>

#include <cstdint>

namespace tutti {
namespace {

/// Runs `body` in a child whose descriptors 0, 1 and 2 are closed; returns its exit code.
template <class Body>
int without_standard_descriptors(Body&& body) {
  const pid_t child = fork();
  if (child == 0) {
    for (const int fd : {0, 1, 2}) ::close(fd);
    _exit(body());
  }
  int status = 0;
  waitpid(child, &status, 0);
  return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

TEST(Descriptor, IsNeverAStandardOne) {
  EXPECT_EQ(without_standard_descriptors([] {
              const Descriptor first(eventfd(0, EFD_CLOEXEC)), second(eventfd(0, EFD_CLOEXEC));
              if (first.fd() < 3 || second.fd() < 3 || first.fd() == second.fd()) return 1;
              for (const int fd : {0, 1, 2})
                if (fcntl(fd, F_GETFD) != -1) return 2;
              if ((fcntl(first.fd(), F_GETFD) & FD_CLOEXEC) == 0) return 3;
              const std::uint64_t one = 1;
              return write(first.fd(), &one, sizeof one) == sizeof one ? 0 : 4;
            }),
            0);
}

TEST(Descriptor, SaysThatThereAreNoMore) {
  const Descriptor none(-1);
  EXPECT_FALSE(none);
}

}  // namespace
}  // namespace tutti
