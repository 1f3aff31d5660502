// The tcp wire: streams between ranks, crossing connections, goodbyes, deaths.
#include "transports/tcp/wire.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/wait.h>

#include "tests/support/tcp_mesh.hpp"
#include "tutti/status.hpp"

namespace tutti {
namespace {

using namespace tutti::testing;
using ::testing::HasSubstr;

/// Runs every rank of a mesh on a thread, with a second thread in the role of the background thread.
bool talk(Mesh& mesh, std::size_t bytes, unsigned seed) {
  const int size = static_cast<int>(mesh.wires.size());
  std::atomic<bool> stop{false}, wrong{false};
  std::vector<std::thread> ranks, watchers;
  for (int rank = 0; rank < size; ++rank) {
    tcp::TcpWire& wire = *mesh.wires[static_cast<std::size_t>(rank)];
    watchers.emplace_back([&wire, &stop] {
      while (!stop) {
        wait_readable(wire.fds().watch, 20);
        wire.watch();
      }
    });
    ranks.emplace_back([&, rank] {
      Talker talker(wire, rank, size, bytes, seed + static_cast<unsigned>(rank));
      talker.run([](int fd) { wait_readable(fd, 10'000); });
      if (talker.wrong()) wrong = true;
    });
  }
  for (std::thread& thread : ranks) thread.join();
  stop = true;
  for (std::thread& thread : watchers) thread.join();
  return !wrong;
}

/// Runs all ranks on one thread until all are done.
bool play(Mesh& mesh, std::size_t bytes, unsigned seed) {
  const int size = static_cast<int>(mesh.wires.size());
  std::vector<Talker> talkers;
  for (int rank = 0; rank < size; ++rank) {
    talkers.emplace_back(*mesh.wires[static_cast<std::size_t>(rank)], rank, size, bytes,
                         seed + static_cast<unsigned>(rank));
  }
  const auto unfinished = [](const Talker& t) { return !t.done(); };
  while (std::ranges::any_of(talkers, unfinished)) {
    for (Talker& talker : talkers) {
      talker.step();
      if (talker.wrong()) return false;
    }
  }
  return true;
}

void close_all(Mesh& mesh) {
  std::vector<std::thread> threads;
  for (auto& wire : mesh.wires) threads.emplace_back([&wire] { wire->close(deadline_in(Seconds(5))); });
  for (std::thread& thread : threads) thread.join();
}

std::size_t failures(const Mesh& mesh) {
  std::size_t count = 0;
  for (const Notes& notes : mesh.notes) count += notes.causes().size();
  return count;
}

class TcpTraffic : public ::testing::TestWithParam<int> {};

TEST_P(TcpTraffic, RandomPiecesArriveInOrder) {
  for (unsigned round = 0; round < 3; ++round) {
    Mesh mesh(GetParam());
    EXPECT_TRUE(talk(mesh, 3'000'000, round * 100));
    EXPECT_EQ(failures(mesh), 0u);
    close_all(mesh);
  }
}
INSTANTIATE_TEST_SUITE_P(Sizes, TcpTraffic, ::testing::Values(2, 3, 4));

TEST(TcpWire, CrossingConnectionsLoseNothingAndLeaveNothing) {
  {
    Mesh warm_up(2);
    play(warm_up, 100, 1);
  }
  const std::size_t before = open_descriptors();
  for (unsigned round = 0; round < 200; ++round) {
    Mesh mesh(2);
    ASSERT_TRUE(round % 2 ? play(mesh, 1000, round) : talk(mesh, 1000, round)) << "round " << round;
    ASSERT_EQ(failures(mesh), 0u);
    close_all(mesh);
  }
  EXPECT_EQ(open_descriptors(), before);
}

TEST(TcpWire, OnlyIPv6) {
  try {
    allowed_interfaces(local_interfaces(), "::1");
  } catch (const Error& error) {
    GTEST_SKIP() << "no IPv6 here: " << error.what();
  }
  Mesh mesh(3, "::1");
  for (const tcp::Endpoint& endpoint : mesh.endpoints) {
    ASSERT_EQ(endpoint.candidates.size(), 1u);
    EXPECT_EQ(endpoint.candidates[0].address.text(), "::1");
  }
  EXPECT_TRUE(play(mesh, 100'000, 7));
  EXPECT_THAT(mesh.wires[0]->describe(1), HasSubstr("[::1]:"));
  EXPECT_THAT(mesh.wires[0]->describe(1), HasSubstr("via lo"));
}

TEST(TcpWire, AnUnknownInterfaceIsRefusedWithTheKnownOnes) {
  try {
    Mesh mesh(1, "lo,nosuch0");
    FAIL() << "accepted";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), Code::invalid);
    EXPECT_THAT(error.what(), HasSubstr("'nosuch0'"));
    EXPECT_THAT(error.what(), HasSubstr("lo 127.0.0.1/8"));
  }
}

TEST(TcpWire, WhatWasWrittenBeforeAGoodbyeArrives) {
  Mesh mesh(2);
  ASSERT_TRUE(play(mesh, 10, 1));
  std::vector<std::byte> sent(200'000);
  for (std::size_t i = 0; i < sent.size(); ++i) sent[i] = stream_byte(1, 0, i);
  const std::array<ConstBytes, 1> pieces = {ConstBytes(sent)};
  const std::size_t wrote = mesh.wires[1]->write(0, pieces);
  ASSERT_GT(wrote, 0u);
  // close() may need a reader, because the data may exceed the kernel's buffers.
  std::thread closing([&] {
    mesh.wires[1]->close(deadline_in(Seconds(30)));
    mesh.wires[1].reset();
  });
  std::vector<std::byte> got(sent.size());
  std::size_t received = 0;
  std::vector<int> ranks;
  while (received < wrote) {
    mesh.wires[0]->poll(ranks);
    received += mesh.wires[0]->read(1, Bytes(got).subspan(received));
  }
  closing.join();
  EXPECT_TRUE(std::equal(got.begin(), got.begin() + static_cast<std::ptrdiff_t>(wrote), sent.begin()));
  mesh.wires[0]->farewell(1);
  for (int i = 0; i < 100; ++i) {
    mesh.wires[0]->poll(ranks);
    mesh.wires[0]->peek(1);
    wait_readable(-1, 1);
  }
  EXPECT_TRUE(mesh.notes[0].causes().empty());
  EXPECT_FALSE(mesh.wires[0]->open(1));
}

TEST(TcpWire, APeerWhoseListenerIsGoneIsNamed) {
  Mesh mesh(2);
  mesh.wires[1].reset();
  const std::array<std::byte, 1> byte{};
  const std::array<ConstBytes, 1> pieces = {ConstBytes(byte)};
  std::vector<int> ranks;
  while (mesh.notes[0].causes().empty()) {
    EXPECT_EQ(mesh.wires[0]->write(1, pieces), 0u);
    mesh.wires[0]->poll(ranks);
    wait_readable(mesh.wires[0]->fds().sleep, 100);
  }
  const Cause cause = mesh.notes[0].causes()[0];
  EXPECT_EQ(cause.code, Code::peer_lost);
  EXPECT_EQ(cause.culprit, 1);
  EXPECT_THAT(cause.text, HasSubstr("rank 1 on host"));
  EXPECT_THAT(cause.text, HasSubstr("Connection refused"));
}

TEST(TcpWire, APeerThatIsAwaitedButGoneIsNamedWithoutAWrite) {
  Mesh mesh(2);
  mesh.wires[1].reset();
  mesh.wires[0]->expect(1);
  std::vector<int> ranks;
  while (mesh.notes[0].causes().empty()) {
    mesh.wires[0]->poll(ranks);
    wait_readable(mesh.wires[0]->fds().sleep, 1000);
  }
  EXPECT_EQ(mesh.notes[0].causes()[0].code, Code::peer_lost);
  EXPECT_EQ(mesh.notes[0].causes()[0].culprit, 1);
}

/// The ranks that have bytes for `wire`. Ranks that poll() reports may have none.
std::vector<int> heard(tcp::TcpWire& wire) {
  std::vector<int> ranks;
  wire.poll(ranks);
  std::erase_if(ranks, [&](int rank) { return wire.peek(rank).empty(); });
  return ranks;
}

// Peer 1 is dropped while its bytes, or its end, are still unread.
TEST(TcpWire, ADroppedPeerKeepsNobodyAwake) {
  for (const bool ends : {false, true}) {
    Mesh mesh(3);
    ASSERT_TRUE(play(mesh, 1000, 1));
    tcp::TcpWire& wire = *mesh.wires[0];
    const std::array<std::byte, 100> bytes{};
    const std::array<ConstBytes, 1> pieces = {ConstBytes(bytes)};
    ASSERT_EQ(mesh.wires[1]->write(0, pieces), bytes.size());
    if (ends) mesh.wires[1].reset();
    while (heard(wire).empty()) {
    }
    EXPECT_FALSE(wire.arm(true));
    wire.drop(1);
    if (!ends) mesh.wires[1]->write(0, pieces);
    for (int i = 0; i < 3; ++i) EXPECT_TRUE(heard(wire).empty());
    EXPECT_TRUE(wire.arm(true));
    wait_readable(wire.fds().sleep, 50);  // no end may be reported, even after the usual delay
    EXPECT_TRUE(heard(wire).empty());
    EXPECT_TRUE(wire.arm(true));
    EXPECT_FALSE(wire.open(1));
    EXPECT_EQ(wire.write(1, pieces), 0u);
    EXPECT_TRUE(mesh.notes[0].causes().empty());
    ASSERT_EQ(mesh.wires[2]->write(0, pieces), bytes.size());
    std::vector<int> others;
    while (others.empty()) others = heard(wire);
    EXPECT_EQ(others.front(), 2);  // rank 2 is still received from
  }
}

// close() returns in time although a peer keeps sending.
TEST(TcpWire, ClosingEndsInTimeThoughAPeerStreamsOn) {
  Mesh mesh(2);
  ASSERT_TRUE(play(mesh, 10, 1));
  std::atomic<bool> stop{false};
  std::thread streaming([&] {
    const std::vector<std::byte> bytes(100'000);
    const std::array<ConstBytes, 1> pieces = {ConstBytes(bytes)};
    std::vector<int> ranks;
    while (!stop) {
      mesh.wires[1]->poll(ranks);
      mesh.wires[1]->write(0, pieces);
    }
  });
  mesh.wires[0]->close(deadline_in(Seconds(0.2)));
  stop = true;
  streaming.join();
}

/// The other rank, as a process: exchanges data, forks a child that outlives it, and waits to be killed.
[[noreturn]] void live_until_killed(int fd) {
  Notes notes;
  auto acceptor = std::make_unique<tcp::Acceptor>(member(1, 2), tcp::AcceptorSettings{}, notes);
  send_endpoint(fd, acceptor->endpoint());
  const tcp::Endpoint other = receive_endpoint(fd);
  const auto wire = meet(std::move(acceptor), 2, {other}, notes);
  Talker talker(*wire, 1, 2, 100'000, 3);
  while (!talker.done()) talker.step();
  const pid_t child = ::fork();
  if (child == 0) {
    ::pause();
    ::_exit(0);
  }
  ::send(fd, &child, sizeof child, 0);
  ::pause();
  ::_exit(1);
}

TEST(TcpWire, AKilledProcessIsNoticedAndNamedThoughItsChildLives) {
  for (int round = 0; round < 5; ++round) {
    int pair[2];
    ASSERT_EQ(::socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair), 0);
    const pid_t victim = ::fork();
    ASSERT_GE(victim, 0);
    if (victim == 0) live_until_killed(pair[1]);
    Notes notes;
    auto acceptor = std::make_unique<tcp::Acceptor>(member(0, 2), tcp::AcceptorSettings{}, notes);
    send_endpoint(pair[0], acceptor->endpoint());
    const auto wire = meet(std::move(acceptor), 2, {receive_endpoint(pair[0])}, notes);
    Talker talker(*wire, 0, 2, 100'000, 4);
    while (!talker.done()) talker.step();
    pid_t child = -1;
    ASSERT_EQ(::recv(pair[0], &child, sizeof child, 0), static_cast<ssize_t>(sizeof child));

    const auto killed = Clock::now();
    ::kill(victim, SIGKILL);
    std::vector<int> ranks;
    while (notes.causes().empty()) {
      ranks.clear();
      wire->poll(ranks);
      for (const int from : ranks) wire->peek(from);
      if (notes.causes().empty() && wire->arm(true)) wait_readable(wire->fds().sleep, 1000);
    }
    RecordProperty("noticed_us", static_cast<int>(Seconds(Clock::now() - killed).count() * 1e6));
    const Cause cause = notes.causes()[0];
    EXPECT_EQ(cause.code, Code::peer_lost);
    EXPECT_EQ(cause.culprit, 1);
    EXPECT_THAT(cause.text, HasSubstr("without a goodbye"));
    EXPECT_EQ(::kill(child, 0), 0) << "the child should still be there";
    ::kill(child, SIGKILL);
    ::waitpid(victim, nullptr, 0);
    ::close(pair[0]);
    ::close(pair[1]);
  }
}

}  // namespace
}  // namespace tutti
