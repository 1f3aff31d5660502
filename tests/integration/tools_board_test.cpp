// The benchmark's board between processes: a waiting rank detects one that has died or left, and does not use its core
// meanwhile.
#include <gtest/gtest.h>

#include <chrono>
#include <thread>

#include "tests/support/asleep.hpp"
#include "tests/support/processes.hpp"
#include "tools/bench/board.hpp"
#include "tutti/status.hpp"

namespace tutti::bench {
namespace {

using testing::expect_asleep;
using testing::Fleet;
using testing::watched_wait;

/// The memory of a board, made by the test in place of a launcher.
struct Memory {
  explicit Memory(int ranks) : shared(make_shared_memory(ranks)) {}
  ~Memory() { close(shared.fd); }
  Memory(const Memory&) = delete;
  Memory& operator=(const Memory&) = delete;
  SharedMemory shared;
};

std::string refused_barrier(Board& board, int culprit) {
  try {
    board.barrier();
  } catch (const Error& error) {
    const std::string wanted = "rank " + std::to_string(culprit) + " (process ";
    if (error.code() != Code::peer_lost || error.culprit() != culprit)
      return "another error: " + std::string(error.what());
    return std::string(error.what()).starts_with(wanted) ? "" : error.what();
  }
  return "the barrier let a rank pass that was alone";
}

TEST(BenchBoard, ADeadRankEndsTheBarrier) {
  const Memory memory(3);
  Fleet fleet(3, [&](int rank) -> std::string {
    const auto board = open_shared_board(memory.shared.path, rank, 3);
    board->barrier();
    if (rank == 1) raise(SIGKILL);
    return refused_barrier(*board, 1);
  });
  EXPECT_EQ(fleet.answer(0), "");
  EXPECT_EQ(fleet.answer(2), "");
  EXPECT_EQ(fleet.answer(1), "killed by signal 9");
}

TEST(BenchBoard, ARankThatLeavesEndsTheBarrierOfTheOthersOnly) {
  const Memory memory(2);
  Fleet fleet(2, [&](int rank) -> std::string {
    {
      const auto board = open_shared_board(memory.shared.path, rank, 2);
      for (int i = 0; i < 100; ++i) board->barrier();  // both ranks pass the last one
      if (rank == 0) return refused_barrier(*board, 1);
    }
    std::this_thread::sleep_for(std::chrono::seconds(20));  // alive, so that its leaving is what is detected
    return "";
  });
  EXPECT_EQ(fleet.answer(0), "");
  fleet.kill(1);
}

TEST(BenchBoard, WhoWaitsLongSleeps) {
  const Memory memory(2);
  Fleet fleet(2, [&](int rank) -> std::string {
    const auto board = open_shared_board(memory.shared.path, rank, 2);
    board->barrier();
    return expect_asleep("waiting", 0.3, [&] {
      if (rank == 1) std::this_thread::sleep_for(watched_wait);
      board->barrier();
    });
  });
  EXPECT_EQ(fleet.answer(0), "");
  EXPECT_EQ(fleet.answer(1), "");
}

}  // namespace
}  // namespace tutti::bench
