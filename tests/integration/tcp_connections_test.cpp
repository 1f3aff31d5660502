// Several tcp connections between two ranks: which bytes each carries, with which system calls, and how they end. This
// process counts its own system calls by socket.
#include <gmock/gmock.h>

#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <map>
#include <optional>

#include "tests/support/tcp_mesh.hpp"
#include "transports/stream/transport.hpp"

namespace {

std::map<int, std::size_t> use;  // by socket that a call was made for: bytes sent

}  // namespace

extern "C" ssize_t sendmsg(int socket, const msghdr* message, int flags) {
  const ssize_t sent = ::syscall(SYS_sendmsg, socket, message, flags);
  if (sent > 0) use[socket] += static_cast<std::size_t>(sent);
  return sent;
}
extern "C" ssize_t recvmsg(int socket, msghdr* message, int flags) {
  use.try_emplace(socket);
  return ::syscall(SYS_recvmsg, socket, message, flags);
}

namespace tutti {
namespace {

using namespace tutti::testing;
using ::testing::HasSubstr;
using ::testing::SizeIs;

constexpr std::size_t large = 32 << 20;

/// Two ranks, driven by one thread.
struct Two {
  explicit Two(const std::vector<int>& connections) : mesh(2, "", connections) {
    use.clear();
    for (std::size_t rank = 0; rank < 2; ++rank)
      ranks.push_back(
          make_stream_transport("tcp", static_cast<int>(rank), 2, std::move(mesh.wires[rank]), mesh.notes[rank]));
  }

  void step() {
    for (const auto& rank : ranks)
      if (rank) rank->progress();
  }

  /// Sends a message from rank 0 to rank 1, and returns whether it arrived unchanged.
  bool sends(std::size_t bytes, std::uint32_t sequence) {
    std::vector<std::byte> out(bytes), in(bytes);
    for (std::size_t i = 0; i < bytes; ++i) out[i] = stream_byte(0, 1, i + sequence);
    int open = 2;
    const auto done = [&](const Status& status) {
      EXPECT_TRUE(status.ok()) << status.text();
      --open;
    };
    const Tag tag{1, sequence, 0};
    ranks[1]->recv(0, tag, 0, in, done);
    ranks[0]->send(1, tag, 0, out, done);
    while (open > 0) step();
    return in == out;
  }

  /// Sends large messages until `sockets` sockets have carried some of them.
  void widen(std::size_t sockets) {
    for (std::uint32_t i = 0; used() < sockets && i < 50; ++i) ASSERT_TRUE(sends(large, 100 + i));
    ASSERT_EQ(used(), sockets);
  }
  /// The number of sockets that have sent more than 1 MiB.
  static std::size_t used() {
    return static_cast<std::size_t>(
        std::ranges::count_if(use, [](const auto& entry) { return entry.second > (1 << 20); }));
  }

  std::size_t failures() const { return mesh.notes[0].causes().size() + mesh.notes[1].causes().size(); }

  Mesh mesh;
  std::vector<std::unique_ptr<Transport>> ranks;
};

TEST(TcpConnections, ALargeMessageGoesByAllOfThem) {
  Two two({4, 4});
  two.widen(4);
  use.clear();
  ASSERT_TRUE(two.sends(large, 1));
  std::size_t total = 0;
  for (const auto& [socket, sent] : use) total += sent;
  EXPECT_GE(total, large);
  EXPECT_LE(total, large + (64 << 10)) << "parts have one head each";
  EXPECT_EQ(two.used(), 4u) << "each carries a part";
  EXPECT_EQ(two.failures(), 0u);
}

TEST(TcpConnections, SmallMessagesKeepToTheFirstAndAskNoOther) {
  Two two({4, 4});
  two.widen(4);
  for (std::uint32_t i = 0; i < 20; ++i) ASSERT_TRUE(two.sends(100, 1000 + i));  // the others become silent
  use.clear();
  for (std::uint32_t i = 0; i < 500; ++i) ASSERT_TRUE(two.sends(100, 2000 + i));
  EXPECT_THAT(use, SizeIs(2)) << "one socket at each end";
}

TEST(TcpConnections, AFewMegabytesNeedOnlyOne) {
  Two two({4, 4});
  for (std::uint32_t i = 0; i < 200; ++i) ASSERT_TRUE(two.sends(60 << 10, i));
  for (std::uint32_t i = 0; i < 10; ++i) ASSERT_TRUE(two.sends(300 << 10, 1000 + i));
  EXPECT_THAT(use, SizeIs(2)) << "one socket at each end";
}

TEST(TcpConnections, AsManyAsBothAllow) {
  Two two({5, 2});
  two.widen(2);
  const Deadline until = deadline_in(Seconds(1));  // longer than refused connections are retried
  for (std::uint32_t i = 0; Clock::now() < until; ++i) ASSERT_TRUE(two.sends(100, i));
  two.widen(2);
  EXPECT_EQ(two.failures(), 0u);
}

TEST(TcpConnections, WhoLeavesInPeaceIsNoFailure) {
  for (int round = 0; round < 20; ++round) {
    Two two({4, 4});
    for (int i = 0; i <= round % 4; ++i) two.sends(5 << 20, 100);  // so that some connections are half open
    std::thread leaving([&] { two.ranks[0].reset(); });
    std::vector<std::byte> in(1);
    std::optional<Status> ended;
    two.ranks[1]->recv(0, {1, 9999, 0}, 0, in, [&](const Status& status) { ended = status; });
    while (!ended) two.ranks[1]->progress();
    leaving.join();
    EXPECT_EQ(ended->code(), Code::peer_lost);
    EXPECT_EQ(two.failures(), 0u) << two.mesh.notes[1].causes().front().text;
  }
}

TEST(TcpConnections, OneThatBreaksIsNamed) {
  Two two({4, 4});
  two.widen(4);
  // Breaks a further connection: the first one has the lowest descriptor, because it was opened first.
  ASSERT_EQ(::shutdown(use.rbegin()->first, SHUT_RDWR), 0);
  while (two.mesh.notes[0].causes().empty() || two.mesh.notes[1].causes().empty()) two.step();
  for (std::size_t rank = 0; rank < 2; ++rank) {
    ASSERT_THAT(two.mesh.notes[rank].causes(), SizeIs(1));
    const Cause cause = two.mesh.notes[rank].causes().front();
    EXPECT_EQ(cause.code, Code::peer_lost);
    EXPECT_EQ(cause.culprit, static_cast<int>(1 - rank));
    EXPECT_THAT(cause.text, HasSubstr("TUTTI_TCP_CONNECTIONS"));
  }
}

/// Makes rank `rank` of two, with four connections. The other rank is a process at the other end of `fd`.
std::unique_ptr<Transport> joins(int rank, int fd, Notes& notes) {
  tcp::AcceptorSettings settings;
  settings.connections = 4;
  auto acceptor = std::make_unique<tcp::Acceptor>(member(rank, 2), settings, notes);
  if (!send_endpoint(fd, acceptor->endpoint())) return nullptr;
  return make_stream_transport("tcp", rank, 2, meet(std::move(acceptor), 2, {receive_endpoint(fd)}, notes), notes);
}

[[noreturn]] void receive_until_killed(int fd) {
  Notes notes;
  const auto rank = joins(1, fd, notes);
  std::vector<std::byte> in(large);
  for (std::uint32_t i = 0;; ++i) {
    bool open = true;
    rank->recv(0, {1, i, 0}, 0, in, [&](const Status&) { open = false; });
    while (open) rank->progress();
  }
}

/// Kills the receiver during a message that uses all connections.
void send_and_kill(Transport& rank, const Notes& notes, pid_t victim) {
  const std::vector<std::byte> out(large);
  for (std::uint32_t i = 0;; ++i) {
    bool open = true;
    rank.send(1, {1, i, 0}, 0, out, [&](const Status&) { open = false; });
    for (int steps = 0; open; ++steps) {
      if (Two::used() == 4 && steps == 10) ::kill(victim, SIGKILL);
      rank.progress();
      if (!notes.causes().empty()) return rank.cancel(1, Status(notes.causes().front()));
    }
  }
}

TEST(TcpConnections, AKilledRankIsNamedOnce) {
  for (int round = 0; round < 5; ++round) {
    use.clear();
    int pair[2];
    ASSERT_EQ(::socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair), 0);
    const pid_t victim = ::fork();
    ASSERT_GE(victim, 0);
    if (victim == 0) receive_until_killed(pair[1]);
    Notes notes;
    const auto rank = joins(0, pair[0], notes);
    send_and_kill(*rank, notes, victim);
    ::waitpid(victim, nullptr, 0);
    const Deadline until = deadline_in(Seconds(0.1));  // longer than the report of an end is delayed
    while (Clock::now() < until) rank->progress();
    ASSERT_THAT(notes.causes(), SizeIs(1));
    const Cause cause = notes.causes().front();
    EXPECT_EQ(cause.culprit, 1);
    EXPECT_THAT(cause.text, HasSubstr("without a goodbye"));
    ::close(pair[0]);
    ::close(pair[1]);
  }
}

}  // namespace
}  // namespace tutti
