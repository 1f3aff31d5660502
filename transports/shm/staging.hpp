// Staging: writes data for another core into memory that the other core has read before.
//
// If the two cores share no cache, taking back such lines can dominate the cost, as each one is requested separately.
// Non-temporal stores avoid that, but the reader then loads from memory. The better way depends on where both processes
// run at the moment, so both ways are timed from time to time.
#pragma once

#include <algorithm>
#include <array>
#include <chrono>
#include <cstddef>

#include "transports/core/copy.hpp"
#include "tutti/clock.hpp"

namespace tutti::shm {

/// Chooses the way for the next piece from the measured cost of the last ones.
class StagingWay {
 public:
  enum Way : std::size_t { ordinary, streaming };
  struct Piece {
    Way way = ordinary;
    bool timed = false;
  };

  Piece next() noexcept {
    if (--untimed_ > 0) return {better_, false};
    untimed_ = better_ == ordinary ? often : rarely;
    const bool doubtful = better_ == streaming || cost_[ordinary] > readers_loss;
    if (doubtful) tries_other_ = !tries_other_;
    return {doubtful && tries_other_ ? Way(1 - better_) : better_, true};
  }

  /// Records the `cost` of a piece, in nanoseconds per byte.
  void took(Way way, double cost) noexcept {
    cost_[way] = std::min(cost, last_[way]);  // the lower of two: one of them may include preemption or page faults
    last_[way] = cost;
    if (cost_[streaming] > 0) better_ = cost_[ordinary] > cost_[streaming] + readers_loss ? streaming : ordinary;
  }

  static constexpr double readers_loss = 0.15;   ///< reader's cost of loads from memory, nanoseconds per byte
  static constexpr int often = 8, rarely = 128;  ///< timed pieces are this many pieces apart

 private:
  std::array<double, 2> last_{}, cost_{};  // cost of the last piece; the lower of the last two, 0: unknown
  Way better_ = ordinary;
  bool tries_other_ = false;
  int untimed_ = 1;
};

/// Use one object per kind of destination. One thread at a time.
class Staging {
 public:
  void copy(std::byte* into, const std::byte* from, std::size_t bytes) noexcept {
    constexpr std::size_t worth_timing = 4096;
    if (bytes < worth_timing) return tutti::copy(into, from, bytes);
    const StagingWay::Piece piece = way_.next();
    const auto began = piece.timed ? Clock::now() : Clock::time_point();
    piece.way == StagingWay::streaming ? copy_streaming(into, from, bytes) : tutti::copy(into, from, bytes);
    if (!piece.timed) return;
    const std::chrono::duration<double, std::nano> took = Clock::now() - began;
    way_.took(piece.way, took.count() / static_cast<double>(bytes));
  }

 private:
  StagingWay way_;
};

}  // namespace tutti::shm
