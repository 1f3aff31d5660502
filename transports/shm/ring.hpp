// A single-producer, single-consumer byte ring in shared memory, and the flags by which a sleeping side is woken.
//
// `head` counts all bytes produced, `tail` all bytes consumed. Both only grow; each is written by one side and has its
// own cache lines. The data are mapped twice in a row, so any range is contiguous and no loop handles wrap-around.
//
// Sleeping. A rank that is about to sleep sets its flag and then checks its rings again; a rank that moves an index
// checks the other's flag afterwards:
//
//     sleeper:  flag = 1        (1)        mover:  index = new   (3)
//               read index      (2)                read flag     (4)
//
// All four are seq_cst, so they have one total order. If (2) misses the new index, then (2) precedes (3), hence (1)
// precedes (4), and (4) sees the flag: the mover rings the doorbell. If (4) misses the flag, then (4) precedes (1),
// hence (3) precedes (2), and (2) sees the index: the sleeper stays awake. With weaker orders both stores could wait in
// store buffers while both loads read old values, and the sleeper would never wake. The sleeper drains the doorbell (an
// eventfd) only before it reads the rings again, so it then sees every index that moved before the doorbell was rung.
// Ringing the doorbell without need costs one early wake-up. The code uses seq_cst stores and not fences, because TSan
// understands these stores; on x86 both are one locked instruction.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>

#include "transports/shm/staging.hpp"
#include "tutti/buffer.hpp"

namespace tutti::shm {

/// Two cache lines, because the adjacent-line prefetcher loads them in pairs.
inline constexpr std::size_t line_bytes = 128;

/// The indices of one ring; zero-initialised.
struct RingIndices {
  alignas(line_bytes) std::atomic<std::uint64_t> head{0};  ///< written by the producer
  alignas(line_bytes) std::atomic<std::uint64_t> tail{0};  ///< written by the consumer
};
static_assert(std::atomic<std::uint64_t>::is_always_lock_free);

/// A rank's sleep state; written only by that rank.
enum class Sleep : std::uint32_t {
  awake,
  for_data,           ///< wake this rank when data arrives for it
  for_data_or_space,  ///< also when a peer consumes data from a full ring of this rank
};

/// The producer's end. The memory is borrowed.
class RingWriter {
 public:
  RingWriter() = default;
  RingWriter(RingIndices& indices, std::byte* mirrored, std::size_t capacity) noexcept
      : indices_(&indices), data_(mirrored), capacity_(capacity) {}

  /// Copies as much of `from` as fits into the ring, without publishing it; returns the number of bytes copied.
  std::size_t put(ConstBytes from) noexcept {
    if (room() < from.size()) seen_tail_ = indices_->tail.load(std::memory_order_acquire);
    const std::size_t bytes = std::min(room(), from.size());
    if (bytes != 0) staging_.copy(data_ + (next_ & (capacity_ - 1)), from.data(), bytes);
    next_ += bytes;
    return bytes;
  }

  std::size_t unpublished() const noexcept { return static_cast<std::size_t>(next_ - published_); }

  /// Publishes all data to the consumer: step (3) above. The caller must then check the consumer's flag.
  void publish() noexcept {
    indices_->head.store(next_, std::memory_order_seq_cst);
    published_ = next_;
  }

  /// Step (2) above, for a producer that waits for space: true if the consumer has read since put() was last short.
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

/// The consumer's end. The memory is borrowed.
class RingReader {
 public:
  RingReader() = default;
  RingReader(RingIndices& indices, const std::byte* mirrored, std::size_t capacity) noexcept
      : indices_(&indices), data_(mirrored), capacity_(capacity) {}

  /// All data that are published and not yet consumed, contiguous.
  ConstBytes peek() noexcept {
    const std::uint64_t head = indices_->head.load(std::memory_order_acquire);
    // If a peer has corrupted the head, it may be beyond the ring: limit the size to the mapping.
    const std::size_t bytes = std::min(static_cast<std::size_t>(head - next_), capacity_);
    return {data_ + (next_ & (capacity_ - 1)), bytes};
  }

  bool empty() const noexcept { return indices_->head.load(std::memory_order_acquire) == next_; }

  /// Step (2) above, for a consumer that waits for data.
  bool still_empty() const noexcept { return indices_->head.load(std::memory_order_seq_cst) == next_; }

  /// Step (3) above: gives the first `bytes` bytes that peek() returned back to the producer as free space. The caller
  /// must then check the producer's flag.
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
