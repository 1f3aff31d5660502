// A scatter in which every rank reads its block from the root's memory: without permission to read, with ranks that
// die, and with mismatched calls.
#include <gtest/gtest.h>

#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <numeric>
#include <string>
#include <thread>
#include <vector>

#include "tests/support/going.hpp"
#include "tests/support/joined.hpp"
#include "tests/support/processes.hpp"
#include "transports/core/process.hpp"
#include "tutti.hpp"

namespace tutti::testing {
namespace {

using namespace std::chrono_literals;

constexpr int size = 4;
constexpr std::size_t large = 300'007;  // elements of a block that has several pieces

class ShmCma : public ::testing::Test {
 protected:
  void SetUp() override {
    int word = 7, seen = 0;
    if (read_memory_of(::getpid(), reinterpret_cast<std::uintptr_t>(&word), &seen, sizeof seen) != 0)
      GTEST_SKIP() << "the kernel allows no process_vm_readv here";
  }
  /// Starts the ranks of a new world. The rank `blind` cannot read others' memory; -1: all can.
  Fleet begin(const std::function<void(Communicator&)>& body, int blind = -1) {
    folder_ = home_.path() + "/" + std::to_string(++runs_);
    return {size, [folder = folder_, body, blind](int rank) -> std::string {
              if (rank == blind) ::setenv("TUTTI_TEST_NO_CMA", "1", 1);
              Bootstrap bootstrap = bootstrap_in(folder, rank, size);
              bootstrap.settings.transport = "shm";
              bootstrap.settings.tuning = "off";
              Communicator world = Communicator::connect(bootstrap);
              body(world);
              return ::testing::Test::HasFailure() ? "see above" : "";
            }};
  }
  void the_dead_is_named(int victim);

  TemporaryFolder home_;
  std::string folder_;
  int runs_ = 0;
};

void scatter_by(Communicator& world, const char* algorithm, std::size_t count, int root) {
  std::vector<int> given(world.rank() == root ? count * size : 0), block(count), expected(count);
  std::iota(given.begin(), given.end(), 0);
  std::iota(expected.begin(), expected.end(), static_cast<int>(count) * world.rank());
  world.scatter(std::span<const int>(given), std::span<int>(block), root, {.algorithm = algorithm}).wait();
  EXPECT_EQ(block, expected) << algorithm << ", " << count << " of root " << root;
}

// All ranks use the same engine; a rank with another one would fail.
TEST_F(ShmCma, WhereOneRankMayNotReadNobodyDoes) {
  const auto play = [](Communicator& world) {
    for (const int root : {0, 2})
      for (const char* const algorithm : {"", "shm/cma"})
        for (const std::size_t count : {std::size_t{1}, std::size_t{5000}, large})
          scatter_by(world, algorithm, count, root);
  };
  for (const int blind : {-1, 0, 2}) {
    Fleet fleet = begin(play, blind);
    fleet.expect_success();
  }
}

void ShmCma::the_dead_is_named(int victim) {
  Fleet fleet = begin([this, victim](Communicator& world) {
    try {
      for (int i = 0;; ++i) {
        scatter_by(world, "shm/cma", large, 0);
        if (i == 0) say_going(folder_, world.rank());
      }
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), Code::peer_lost) << error.what();
      EXPECT_EQ(error.culprit(), victim) << error.what();
    }
  });
  wait_until_going(folder_, size);
  std::this_thread::sleep_for(20ms);
  fleet.expect_success_without(victim);
}

TEST_F(ShmCma, ADeadRootIsNamed) { the_dead_is_named(0); }
TEST_F(ShmCma, ADeadReaderIsNamed) { the_dead_is_named(3); }

// The root detects that rank 1 has left, and fails. Rank 2, which calls later, must get the same failure.
TEST_F(ShmCma, ARankThatHasLeftIsNamedToWhoComesLater) {
  Fleet fleet = begin([](Communicator& world) {
    if (world.rank() == 1) return;
    if (world.rank() == 2) std::this_thread::sleep_for(300ms);
    try {
      scatter_by(world, "shm/cma", large, 0);
      ADD_FAILURE() << "it passed";
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), Code::peer_lost) << error.what();
      EXPECT_EQ(error.culprit(), 1) << error.what();
    }
  });
  fleet.expect_success();
}

// The kernel cannot read memory of memfd_secret for another process.
TEST_F(ShmCma, ABufferThatTheKernelDoesNotReadGoesByRounds) {
#ifdef SYS_memfd_secret
  const int file = static_cast<int>(::syscall(SYS_memfd_secret, 0));
  static constexpr std::size_t count = 20'000, bytes = count * size * sizeof(int);
  if (file < 0 || ::ftruncate(file, bytes) != 0) GTEST_SKIP() << "no memfd_secret: " << std::strerror(errno);
  Fleet fleet = begin([file](Communicator& world) {
    for (int i = 0; i < 4; ++i) {
      std::vector<int> block(count), expected(count);
      std::iota(expected.begin(), expected.end(), static_cast<int>(count) * world.rank());
      void* secret = nullptr;
      if (world.rank() == 0) {
        secret = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
        ASSERT_NE(secret, MAP_FAILED) << std::strerror(errno);
        std::iota(static_cast<int*>(secret), static_cast<int*>(secret) + count * size, 0);
      }
      const std::span<const int> given(static_cast<const int*>(secret), secret == nullptr ? 0 : count * size);
      world.scatter(given, std::span<int>(block), 0).wait();
      EXPECT_EQ(block, expected);
      if (secret != nullptr) ::munmap(secret, bytes);
      scatter_by(world, "", count, i % size);
    }
  });
  fleet.expect_success();
  ::close(file);
#else
  GTEST_SKIP() << "no memfd_secret";
#endif
}

// One rank makes another call, in which it only sends, so that it may complete before the mismatch is detected.
TEST_F(ShmCma, ACallThatIsNoScatterIsToldApart) {
  for (const std::size_t count : {std::size_t{4}, large}) {
    Fleet fleet = begin([count](Communicator& world) {
      std::vector<int> given(large * size), block(large);
      try {
        if (world.rank() == 1)
          world.broadcast(std::span<int>(block).first(count), 1).wait();
        else
          world.scatter(std::span<const int>(given), std::span<int>(block), 0, {.algorithm = "shm/cma"}).wait();
        world.barrier().wait();
        ADD_FAILURE() << "the calls passed";
      } catch (const Error& error) {
        EXPECT_EQ(error.code(), Code::mismatch) << error.what();
      }
    });
    fleet.expect_success();
  }
}

}  // namespace
}  // namespace tutti::testing
