// A ring of bytes in shared memory with one producer and one consumer, and the flag by which each of
// them learns that the other sleeps.
//
// `head` counts the bytes ever produced, `tail` those ever consumed; both only grow, each is written by
// one side, and each lies on its own cache lines. The data is mapped twice in a row, so that whatever lies
// between the two is contiguous: there is no wrap to handle in any loop here.
//
// Sleeping. A rank that is about to sleep raises its flag and then looks at its rings once more;
// whoever moves an index looks at the other's flag afterwards:
//
//     sleeper:  flag = 1        (1)        mover:  index = new   (3)
//               read index      (2)                read flag     (4)
//
// All four are seq_cst, so they have one total order. If (2) misses the new index, then (2) comes before
// (3), hence (1) before (4), and (4) sees the flag: the mover rings the doorbell. If (4) misses the flag,
// then (4) comes before (1), hence (3) before (2), and (2) sees the index: the sleeper does not sleep. With
// anything weaker both stores may wait in their cores' store buffers while both loads read old values,
// and the sleeper sleeps for ever. The doorbell (an eventfd) is drained only before the rings are read again:
// whoever rang it had moved its index, which that read sees. A ring that nobody awaited costs one early wake-up.
// seq_cst stores instead of fences, because TSan understands them; on x86 the store is one xchg either way.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>

#include "transports/core/buffer.hpp"
#include "transports/shm/staging.hpp"

namespace tutti::shm {

/// Two cache lines: the adjacent-line prefetcher makes pairs of them.
inline constexpr std::size_t line_bytes = 128;

/// The indices of one ring; zero at first.
struct RingIndices {
  alignas(line_bytes) std::atomic<std::uint64_t> head{0};  ///< written by the producer
  alignas(line_bytes) std::atomic<std::uint64_t> tail{0};  ///< written by the consumer
};
static_assert(std::atomic<std::uint64_t>::is_always_lock_free);

/// What a rank says about its sleep; written by itself alone.
enum class Sleep : std::uint32_t {
  awake,
  for_data,           ///< wake me when something is produced for me
  for_data_or_space,  ///< also when something that I produced is consumed: a ring of mine is full
};

/// The producing end. The memory is borrowed.
class RingWriter {
 public:
  RingWriter() = default;
  RingWriter(RingIndices& indices, std::byte* mirrored, std::size_t capacity) noexcept
      : indices_(&indices), data_(mirrored), capacity_(capacity) {}

  /// Copies what fits of `from` without showing it to the consumer; returns how many bytes.
  std::size_t put(ConstBytes from) noexcept {
    if (room() < from.size()) seen_tail_ = indices_->tail.load(std::memory_order_acquire);
    const std::size_t bytes = std::min(room(), from.size());
    if (bytes != 0) staging_.copy(data_ + (next_ & (capacity_ - 1)), from.data(), bytes);
    next_ += bytes;
    return bytes;
  }

  std::size_t unpublished() const noexcept { return static_cast<std::size_t>(next_ - published_); }

  /// Shows everything to the consumer: (3) above; the caller then looks at the consumer's flag.
  void publish() noexcept {
    indices_->head.store(next_, std::memory_order_seq_cst);
    published_ = next_;
  }

  /// (2) above, for a sleeper that awaits space: whether the consumer moved since put() was last short.
  bool drained_since_full() const noexcept { return indices_->tail.load(std::memory_order_seq_cst) != seen_tail_; }

 private:
  std::size_t room() const noexcept {
    const auto used = static_cast<std::size_t>(next_ - seen_tail_);
    return used < capacity_ ? capacity_ - used : 0;
  }

  RingIndices* indices_ = nullptr;
  std::byte* data_ = nullptr;
  std::size_t capacity_ = 0;
  std::uint64_t next_ = 0, published_ = 0, seen_tail_ = 0;
  Staging staging_;
};

/// The consuming end. The memory is borrowed.
class RingReader {
 public:
  RingReader() = default;
  RingReader(RingIndices& indices, const std::byte* mirrored, std::size_t capacity) noexcept
      : indices_(&indices), data_(mirrored), capacity_(capacity) {}

  /// Everything published and not yet consumed, contiguous.
  ConstBytes peek() noexcept {
    const std::uint64_t head = indices_->head.load(std::memory_order_acquire);
    // A head beyond the ring would be a peer's wild write; never read past the mapping for it.
    const std::size_t bytes = std::min(static_cast<std::size_t>(head - next_), capacity_);
    return {data_ + (next_ & (capacity_ - 1)), bytes};
  }

  bool empty() const noexcept { return indices_->head.load(std::memory_order_acquire) == next_; }

  /// (2) above, for a sleeper that awaits data.
  bool still_empty() const noexcept { return indices_->head.load(std::memory_order_seq_cst) == next_; }

  /// Gives `bytes` of what peek() showed back to the producer: (3) above; the caller then looks at the
  /// producer's flag.
  void consume(std::size_t bytes) noexcept {
    next_ += bytes;
    indices_->tail.store(next_, std::memory_order_seq_cst);
  }

 private:
  RingIndices* indices_ = nullptr;
  const std::byte* data_ = nullptr;
  std::size_t capacity_ = 0;
  std::uint64_t next_ = 0;
};

}  // namespace tutti::shm
