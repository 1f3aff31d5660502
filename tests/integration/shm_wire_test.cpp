// The shared-memory wire between processes and threads: transfer, sleep, connecting, and the end.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sched.h>
#include <sys/socket.h>
#include <sys/un.h>

#include <fstream>

#include "tests/support/arenas.hpp"
#include "tests/support/processes.hpp"
#include "tests/support/shm_ranks.hpp"
#include "transports/stream/frames.hpp"

namespace tutti::testing {
namespace {

using ::testing::HasSubstr;

// Runs `body` once per rank, each on a thread.
void as_threads(int size, const std::function<void(int)>& body) {
  std::vector<std::thread> threads;
  for (int rank = 0; rank < size; ++rank) threads.emplace_back([&, rank] { body(rank); });
  for (std::thread& thread : threads) thread.join();
}

std::shared_ptr<Store> file_store(const TemporaryFolder& folder) { return make_file_store(folder.path()); }

TEST(ShmWire, CarriesEverythingBetweenThreads) {
  for (const int size : {2, 3, 5}) {
    const auto store = make_local_store();
    as_threads(size, [&](int rank) {
      ShmRank self(rank, size, store);
      ASSERT_TRUE(self.met.wire);
      EXPECT_TRUE(self.met.unreached.empty());
      std::size_t seed = 1;
      for (const std::size_t bytes : {1, 24, 4096, 70'000, 1'500'000}) EXPECT_EQ(self.exchange(bytes, seed++), "");
    });
  }
}

TEST(ShmWire, CarriesEverythingBetweenProcesses) {
  for (const int size : {2, 4}) {
    const TemporaryFolder folder;
    Fleet fleet(size, [&](int rank) {
      ShmRank self(rank, size, file_store(folder));
      std::string problem;
      for (std::size_t seed = 1; problem.empty() && seed < 12; ++seed)
        problem = self.exchange(1 + seed * 300'007 % 3'000'000, seed);
      return problem;
    });
    fleet.expect_success();
  }
}

bool rings(ShmRank& rank) {
  pollfd fd = {rank.wire().fds().sleep, POLLIN, 0};
  return ::poll(&fd, 1, 0) == 1;
}

TEST(ShmWire, ADroppedPeerKeepsNobodyAwake) {
  const auto store = make_local_store();
  std::unique_ptr<ShmRank> ranks[2];
  as_threads(2, [&](int rank) { ranks[rank] = std::make_unique<ShmRank>(rank, 2, store); });
  Wire& wire = ranks[0]->wire();
  const std::vector<std::byte> bytes(64 << 20);
  const ConstBytes pieces[] = {bytes};
  ASSERT_GT(ranks[1]->wire().write(0, pieces), 0u);  // rank 0 never reads this
  ASSERT_LT(wire.write(1, pieces), bytes.size());    // the ring to rank 1 is full
  std::vector<std::byte> some(5000);
  ASSERT_EQ(ranks[1]->wire().read(0, some), some.size());  // the ring has space again
  EXPECT_FALSE(wire.arm(true));
  wire.drop(1);
  std::vector<int> ready;
  wire.poll(ready);
  EXPECT_TRUE(ready.empty());
  EXPECT_EQ(wire.write(1, pieces), 0u);
  EXPECT_TRUE(wire.arm(true));
}

// Like a background thread, rank 0 arms repeatedly and never disarms.
TEST(ShmWire, ARingThatWasHeardDoesNotRingOn) {
  const auto store = make_local_store();
  std::unique_ptr<ShmRank> ranks[2];
  as_threads(2, [&](int rank) { ranks[rank] = std::make_unique<ShmRank>(rank, 2, store); });
  ASSERT_TRUE(ranks[0]->wire().arm(true));
  EXPECT_FALSE(rings(*ranks[0]));
  ranks[1]->wire().ring(0);
  EXPECT_TRUE(rings(*ranks[0]));
  EXPECT_TRUE(ranks[0]->wire().arm(true));
  EXPECT_FALSE(rings(*ranks[0]));
}

TEST(ShmWire, WorksWithTheSmallestRings) {
  const auto store = make_local_store();
  Settings settings;
  settings.set("shm_bytes", "64K", "test");
  as_threads(18, [&](int rank) {
    ShmRank self(rank, 18, store, settings);
    EXPECT_EQ(self.wire().describe((rank + 1) % 18), "rings of " + size_text(page_bytes()));
    EXPECT_EQ(self.exchange(20'000, 5), "");
  });
}

// A rank that has never written to another rank has no ring to it. Its goodbye must arrive without a ring.
TEST(ShmWire, AGoodbyeNeedsNoRing) {
  const auto store = make_local_store();
  std::unique_ptr<ShmRank> ranks[3];
  as_threads(3, [&](int rank) { ranks[rank] = std::make_unique<ShmRank>(rank, 3, store); });
  Wire& wire = ranks[0]->wire();
  wire.expect(2);  // as a pending recv does
  ASSERT_TRUE(wire.arm(true));
  ranks[2].reset();
  EXPECT_TRUE(rings(*ranks[0])) << "who sleeps is woken";
  wire.arm(false);
  std::vector<int> ready;
  wire.poll(ready);
  ASSERT_EQ(ready, std::vector<int>{2});
  stream::Frame frame;
  ASSERT_EQ(wire.read(2, std::as_writable_bytes(std::span(&frame, 1))), sizeof frame);
  EXPECT_EQ(frame.type, stream::FrameType::goodbye);
  ready.clear();
  wire.poll(ready);
  EXPECT_TRUE(ready.empty());
  EXPECT_TRUE(ranks[0]->listener.causes().empty());
}

// Shared memory grows with the pairs of ranks that exchange data, not with the ranks.
TEST(ShmWire, OnlyPairsThatTalkHaveRings) {
  constexpr int size = 24;
  const auto store = make_local_store();
  std::unique_ptr<ShmRank> ranks[size];
  as_threads(size, [&](int rank) { ranks[rank] = std::make_unique<ShmRank>(rank, size, store); });
  const std::size_t before = segment_bytes();
  const std::byte first[1] = {};
  const ConstBytes piece(first);
  for (const int to : {1, 5}) EXPECT_EQ(ranks[0]->wire().write(to, {&piece, 1}), 1u);
  const std::size_t ring = std::size_t{128} << 10;  // the largest power of two of which 23 are within 4 MiB
  EXPECT_EQ(segment_bytes(), before + 2 * (ring + page_bytes())) << "two rings, and the pages of their indices";
}

TEST(ShmWire, AloneIsFine) {
  ShmRank self(0, 1, make_local_store());
  std::vector<int> ready;
  self.wire().poll(ready);
  EXPECT_TRUE(ready.empty());
  EXPECT_TRUE(self.wire().arm(true));
  self.wire().watch();
  self.wire().close({});
}

TEST(ShmWire, RingWakesSleeperAndWatcher) {
  const auto store = make_local_store();
  std::atomic<bool> armed{false};
  as_threads(2, [&](int rank) {
    ShmRank self(rank, 2, store);
    if (rank == 0) {
      EXPECT_TRUE(self.wire().arm(true));
      armed = true;
      pollfd fds[] = {{self.wire().fds().sleep, POLLIN, 0}};
      EXPECT_EQ(::poll(fds, 1, 20'000), 1);
      self.wire().arm(false);
      EXPECT_EQ(::poll(fds, 1, 0), 0);  // disarming has emptied the descriptor
      fds[0].fd = self.wire().fds().watch;
      EXPECT_EQ(::poll(fds, 1, 20'000), 1);
      self.wire().watch();
    } else {
      while (!armed) std::this_thread::yield();
      self.wire().ring(0);
    }
    EXPECT_EQ(self.exchange(10, 1), "");
    EXPECT_TRUE(self.listener.causes().empty());
  });
}

TEST(ShmWire, ACauseReachesEveryoneOnce) {
  const auto store = make_local_store();
  as_threads(3, [&](int rank) {
    ShmRank self(rank, 3, store);
    Cause why;
    why.code = Code::peer_lost;
    why.culprit = 17;
    why.reporter = 1;
    why.say("rank 17 died elsewhere");
    if (rank == 1) {
      EXPECT_TRUE(self.wire().post(why));
      EXPECT_TRUE(self.wire().post(why));
      why.group = 5;  // of one communicator, so it counts as another cause
      EXPECT_TRUE(self.wire().post(why));
    } else {
      const Deadline late = deadline_in(Seconds(20));
      std::vector<int> ready;
      while (self.listener.causes().size() < 2 && Clock::now() < late) self.wire().poll(ready);
    }
    self.wire().watch();
    ASSERT_EQ(self.listener.causes().size(), rank == 1 ? 0u : 2u);
    if (rank != 1) {
      EXPECT_EQ(self.listener.causes()[1].group, 5u);
      EXPECT_EQ(self.listener.causes()[0].culprit, 17);
      EXPECT_STREQ(self.listener.causes()[0].text, "rank 17 died elsewhere");
    }
  });
}

TEST(ShmWire, ANormalEndIsNoFailure) {
  const TemporaryFolder folder;
  Fleet fleet(3, [&](int rank) -> std::string {
    ShmRank self(rank, 3, file_store(folder));
    std::string problem = self.exchange(1000, 3);
    if (rank == 2) return problem;  // the destructor sends a goodbye
    pollfd fd = {self.wire().fds().watch, POLLIN, 0};
    if (::poll(&fd, 1, 20'000) != 1) return "rank 2's goodbye never came";
    for (int i = 0; i < 20; ++i) {
      self.wire().watch();
      ::poll(&fd, 1, 10);
    }
    if (!self.listener.causes().empty()) return self.listener.causes()[0].text;
    make_file_store(folder.path())->add("through", 1);
    while (true) {
      std::string count;
      if (make_file_store(folder.path())->find("through", count) && count == "2") return problem;
      ::usleep(1000);
    }
  });
  fleet.expect_success();
}

TEST(ShmMeeting, NamesWhoDidNotCome) {
  const auto store = make_local_store();
  as_threads(2, [&](int rank) {
    try {
      ShmRank self(rank, 3, store, {}, Seconds(0.3));
      ADD_FAILURE() << "rank " << rank << " connected";
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), Code::timeout);
      EXPECT_THAT(error.what(), HasSubstr("rank 2"));
    }
  });
}

TEST(ShmMeeting, AnotherSecretIsUnreachedAtBothEnds) {
  const auto store = make_local_store();
  as_threads(3, [&](int rank) {
    Settings settings;
    settings.secret = rank == 1 ? "wrong" : "right";
    ShmRank self(rank, 3, store, settings);
    if (rank == 1) {
      EXPECT_FALSE(self.met.wire);
      EXPECT_EQ(self.met.unreached, (std::vector<int>{0, 2}));
    } else {
      ASSERT_TRUE(self.met.wire);
      EXPECT_EQ(self.met.unreached, (std::vector<int>{1}));
      EXPECT_FALSE(self.wire().open(1));
      EXPECT_FALSE(self.wire().open(2 - rank)) << "before the first byte";
      const std::byte first[1] = {};
      const ConstBytes piece(first);
      EXPECT_EQ(self.wire().write(2 - rank, {&piece, 1}), 1u);
      EXPECT_TRUE(self.wire().open(2 - rank));
    }
    EXPECT_THAT(self.met.reason, HasSubstr("TUTTI_SECRET"));
  });
}

TEST(ShmMeeting, OtherNetworkNamespacesAreUnreachedAtBothEnds) {
  if (::geteuid() != 0) GTEST_SKIP() << "needs root to make a network namespace";
  const TemporaryFolder folder;
  Fleet fleet(4, [&](int rank) -> std::string {
    if (rank == 2 && ::unshare(CLONE_NEWNET) != 0) return "unshare failed";
    Settings settings;
    settings.host_id = "the same";
    ShmRank self(rank, 4, file_store(folder), settings);
    if (rank == 2)
      return self.met.wire || self.met.unreached != std::vector<int>{0, 1, 3} ? "rank 2 reached somebody" : "";
    if (self.met.unreached != std::vector<int>{2}) return "not exactly rank 2 is unreached";
    return self.met.reason.find("network namespace") == std::string::npos ? "reason: " + self.met.reason : "";
  });
  fleet.expect_success();
}

// Connects to rank 0's listener as a stranger, which does not know the secret.
void be_a_stranger(Store& store) {
  const std::string name = store.wait("0/at", deadline_in(Seconds(20)));
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  std::copy(name.begin(), name.end(), address.sun_path + 1);
  const auto length = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + name.size());
  const int silent = ::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
  const int noisy = ::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
  ASSERT_EQ(::connect(silent, reinterpret_cast<sockaddr*>(&address), length), 0);
  ASSERT_EQ(::connect(noisy, reinterpret_cast<sockaddr*>(&address), length), 0);
  ASSERT_EQ(::send(noisy, "GET / HTTP/1.0\r\n\r\n", 18, MSG_NOSIGNAL), 18);
  char answer;
  EXPECT_EQ(::recv(noisy, &answer, 1, 0), 0) << "the stranger was not refused";
  ::close(silent);
  ::close(noisy);
}

TEST(ShmMeeting, RefusesStrangers) {
  const auto store = make_local_store();
  Settings settings;
  settings.secret = "only we know";
  ::testing::internal::CaptureStderr();
  std::thread first([&] {
    ShmRank self(0, 2, store, settings);
    EXPECT_EQ(self.exchange(100, 1), "");
  });
  be_a_stranger(*store);
  ShmRank self(1, 2, store, settings);
  EXPECT_EQ(self.exchange(100, 1), "");
  first.join();
  EXPECT_THAT(::testing::internal::GetCapturedStderr(), HasSubstr("refused a caller"));
}

std::size_t lines_of(const char* path) {
  std::ifstream file(path);
  std::size_t count = 0;
  for (std::string line; std::getline(file, line);) ++count;
  return count;
}

std::size_t open_descriptors() {
  return static_cast<std::size_t>(std::distance(std::filesystem::directory_iterator("/proc/self/fd"), {}));
}

TEST(ShmMeeting, ManyCyclesLeaveNothing) {
  const auto store = make_local_store();
  const auto cycle = [&](int round) {
    as_threads(2, [&](int rank) {
      ShmRank self(rank, 2, make_prefix_store(store, std::to_string(round)));
      EXPECT_EQ(self.exchange(5000, 1), "");
    });
  };
  for (int round = 0; round < 20; ++round) cycle(round);
  const std::size_t descriptors = open_descriptors(), mappings = lines_of("/proc/self/maps");
  for (int round = 20; round < 200; ++round) cycle(round);
  EXPECT_EQ(open_descriptors(), descriptors);
  // The number varies by thread stacks and the allocator's arenas, but less than by a leak of one mapping per cycle.
  EXPECT_LT(lines_of("/proc/self/maps"), mappings + 60);
}

}  // namespace
}  // namespace tutti::testing
