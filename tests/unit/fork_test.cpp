// A forked child holds none of the guarded descriptors, and does not close what reuses their numbers.
#include "tutti/fork.hpp"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/wait.h>

#include "transports/core/descriptor.hpp"

namespace tutti {
namespace {

bool is_open(int fd) { return ::fcntl(fd, F_GETFD) >= 0; }

template <class Body>
int in_child(Body body) {
  const pid_t child = ::fork();
  if (child == 0) ::_exit(body());
  int status = 0;
  ::waitpid(child, &status, 0);
  return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

TEST(Fork, ClosesGuardedDescriptorsInTheChildOnly) {
  Descriptor guarded(::open("/dev/null", O_RDONLY | O_CLOEXEC));
  Descriptor moved(::open("/dev/null", O_RDONLY | O_CLOEXEC));
  const Descriptor owner(std::move(moved));
  EXPECT_FALSE(moved);
  const int plain = ::open("/dev/null", O_RDONLY | O_CLOEXEC);
  const auto generation = fork_generation();
  const int seen = in_child([&] {
    if (is_open(guarded.fd()) || is_open(owner.fd())) return 1;
    if (!is_open(plain)) return 2;
    if (fork_generation() == generation) return 3;
    const int reused = ::open("/dev/null", O_RDONLY | O_CLOEXEC);
    if (reused != guarded.fd() && reused != owner.fd()) return 4;
    guarded.reset();
    return is_open(reused) ? 0 : 5;
  });
  EXPECT_EQ(seen, 0);
  EXPECT_TRUE(is_open(guarded.fd()));
  EXPECT_EQ(fork_generation(), generation);
  ::close(plain);
}

TEST(Fork, ForgetsWhatWasRemoved) {
  const int fd = ::open("/dev/null", O_RDONLY | O_CLOEXEC);
  fork_guard_add(fd);
  EXPECT_TRUE(fork_guard_remove(fd));
  EXPECT_FALSE(fork_guard_remove(fd));
  EXPECT_EQ(in_child([&] { return is_open(fd) ? 0 : 1; }), 0);
  ::close(fd);
}

}  // namespace
}  // namespace tutti
