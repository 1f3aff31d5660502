// The system calls and allocations of a message over tcp. This process counts its own system calls, and one thread
// drives both ranks, so that the counts are reproducible.
#include <gtest/gtest.h>

#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "tests/support/counted_heap.hpp"
#include "tests/support/tcp_mesh.hpp"
#include "transports/stream/transport.hpp"

namespace {

struct Counts {
  long sends = 0, receives = 0, empty_receives = 0, looks = 0, watches = 0;
  std::size_t allocations = 0;
};
Counts counts;

}  // namespace

extern "C" ssize_t sendmsg(int socket, const msghdr* message, int flags) {
  ++counts.sends;
  return ::syscall(SYS_sendmsg, socket, message, flags);
}
extern "C" ssize_t recvmsg(int socket, msghdr* message, int flags) {
  const ssize_t got = ::syscall(SYS_recvmsg, socket, message, flags);
  ++(got < 0 ? counts.empty_receives : counts.receives);
  return got;
}
extern "C" int epoll_wait(int epoll, epoll_event* events, int most, int timeout) {
  ++counts.looks;
  return static_cast<int>(::syscall(SYS_epoll_pwait, epoll, events, most, timeout, nullptr, std::size_t{8}));
}
extern "C" int epoll_ctl(int epoll, int operation, int fd, epoll_event* event) noexcept {
  ++counts.watches;
  return static_cast<int>(::syscall(SYS_epoll_ctl, epoll, operation, fd, event));
}

namespace tutti {
namespace {

using testing::Mesh;

class TcpCalls : public ::testing::Test {
 protected:
  TcpCalls() {
    for (int rank = 0; rank < 2; ++rank)
      ranks_.push_back(make_stream_transport("tcp", rank, 2, std::move(mesh_.wires[static_cast<std::size_t>(rank)]),
                                             mesh_.notes[static_cast<std::size_t>(rank)]));
  }

  /// Both ranks send and receive `bytes` bytes, and then make progress in turn.
  void exchange(std::size_t bytes) {
    for (auto& out : out_) out.resize(bytes, std::byte{1});
    for (auto& in : in_) in.resize(bytes);
    open_ = 4;
    const auto done = [this](const Status& status) {
      EXPECT_TRUE(status.ok()) << status.text();
      --open_;
    };
    const Tag tag{1, 1, 0};
    for (int rank = 0; rank < 2; ++rank) at(rank).recv(1 - rank, tag, 0, in_[rank], done);
    for (int rank = 0; rank < 2; ++rank) at(rank).send(1 - rank, tag, 0, out_[rank], done);
    while (open_ > 0) {
      for (int rank = 0; rank < 2; ++rank) at(rank).progress();
    }
  }

  Counts cost(std::size_t bytes, int rounds) {
    for (int i = 0; i < 20; ++i) exchange(bytes);
    counts = {};
    const std::size_t before = testing::heap_use().allocations;
    for (int i = 0; i < rounds; ++i) exchange(bytes);
    counts.allocations = testing::heap_use().allocations - before;
    return counts;
  }

 private:
  Transport& at(int rank) { return *ranks_[static_cast<std::size_t>(rank)]; }

  Mesh mesh_{2};
  std::vector<std::unique_ptr<Transport>> ranks_;
  std::vector<std::byte> in_[2], out_[2];
  int open_ = 0;
};

TEST_F(TcpCalls, ASmallMessageIsOneSendAndOneReceive) {
  const Counts spent = cost(8, 1000);
  EXPECT_EQ(spent.sends, 2000);
  EXPECT_EQ(spent.receives, 2000);
  EXPECT_LE(spent.empty_receives, 200) << "a short receive is not followed by another";
  EXPECT_LE(spent.looks, 200) << "the epoll is asked now and then only";
  EXPECT_EQ(spent.watches, 0);
  EXPECT_EQ(spent.allocations, 0u);
}

TEST_F(TcpCalls, AMessageWithinTheCreditIsOneSendAndAFewReceives) {
  const Counts spent = cost(48 << 10, 200);
  EXPECT_LE(spent.sends, 420) << "what the peer consumed is said along with the next message";
  EXPECT_LE(spent.receives, 3 * 400);
  EXPECT_EQ(spent.watches, 0);
  EXPECT_EQ(spent.allocations, 0u);
}

TEST_F(TcpCalls, AMegabyteIsAFewCalls) {
  const Counts spent = cost(8 << 20, 4);
  const long megabytes = 2 * 8 * 4;
  EXPECT_LE(spent.sends / megabytes, 24);
  EXPECT_LE(spent.receives / megabytes, 24);
  EXPECT_LE(spent.looks / megabytes, 12);
  EXPECT_EQ(spent.allocations, 0u);
  std::printf("%.1f sends and %.1f receives for a MiB\n", double(spent.sends) / double(megabytes),
              double(spent.receives) / double(megabytes));
}

}  // namespace
}  // namespace tutti
