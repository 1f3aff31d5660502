// Staging: writing what another core reads next, into memory that it has read before.
//
// Where the two cores share no cache, taking such lines back can cost more than all else: each one is asked for by
// itself. Stores past the caches need not have them, but then the other core reads from memory. Which is better depends
// on where the two processes run just now, so both ways are timed now and then.
#pragma once

#include <algorithm>
#include <array>
#include <chrono>
#include <cstddef>

#include "transports/core/clock.hpp"
#include "transports/core/copy.hpp"

namespace tutti::shm {

/// Which way is taken for the next piece, by what the last ones took.
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

  /// `cost`: nanoseconds a byte.
  void took(Way way, double cost) noexcept {
    cost_[way] = std::min(cost, last_[way]);  // in one of them the rank may have lost its core, or met new pages
    last_[way] = cost;
    if (cost_[streaming] > 0) better_ = cost_[ordinary] > cost_[streaming] + readers_loss ? streaming : ordinary;
  }

  static constexpr double readers_loss = 0.15;   ///< from memory instead of caches; nanoseconds a byte
  static constexpr int often = 8, rarely = 128;  ///< pieces, from one that is timed to the next

 private:
  std::array<double, 2> last_{}, cost_{};  // the last time; the less of the last two, 0: not known
  Way better_ = ordinary;
  bool tries_other_ = false;
  int untimed_ = 1;
};

/// One for each kind of place that is written to. One thread at a time.
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
