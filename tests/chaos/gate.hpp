// Gate: where the ranks of a scenario wait for one another without the library.
#pragma once

#include <array>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <thread>

namespace tutti::testing {

/// Lies in memory that all ranks see. Zero bytes are an empty gate. Ranks meet there several times.
struct Gate {
  enum State : std::uint8_t { coming, ready, failed, gone };
  static constexpr std::size_t most_ranks = 16, most_meetings = 8;
  using States = std::array<std::atomic<std::uint8_t>, most_ranks>;
  std::array<States, most_meetings> meetings;
  std::atomic<bool> is_late;  ///< some rank has played all acts

  /// Waits until every rank is here or gone. True if all are here and ready; all ranks get the same answer. Ranks that
  /// wait longer than `limit` get false.
  bool pass(std::size_t meeting, int rank, int ranks, bool is_ready, std::chrono::seconds limit) {
    States& states = meetings.at(meeting);
    states[static_cast<std::size_t>(rank)] = is_ready ? ready : failed;
    const auto until = std::chrono::steady_clock::now() + limit;
    for (int i = 0; i < ranks; ++i) {
      auto& state = states[static_cast<std::size_t>(i)];
      while (state == coming) {
        if (std::chrono::steady_clock::now() > until) return false;
        std::this_thread::sleep_for(std::chrono::microseconds(100));
      }
    }
    for (int i = 0; i < ranks; ++i)
      if (states[static_cast<std::size_t>(i)] != ready) return false;
    return true;
  }
  /// Waits until some rank has played all acts, or all have left; false: all have left.
  bool await_late(int ranks) const {
    for (int left = 0; !is_late; left = 0) {
      for (int rank = 0; rank < ranks; ++rank) left += has_left(rank) ? 1 : 0;
      if (left == ranks) return is_late;
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
    return true;
  }
  bool has_left(int rank) const { return meetings.back()[static_cast<std::size_t>(rank)] == gone; }
  /// The rank will not come. A rank that was ready has passed, or will.
  void leave(int rank) {
    for (States& states : meetings) {
      std::uint8_t expected = coming;
      states[static_cast<std::size_t>(rank)].compare_exchange_strong(expected, gone);
    }
  }
};

}  // namespace tutti::testing
