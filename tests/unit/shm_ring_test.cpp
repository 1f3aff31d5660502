// The ring and its sleep protocol, between two threads.
#include "transports/shm/ring.hpp"

#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cstdint>
#include <memory>
#include <random>
#include <semaphore>
#include <thread>
#include <vector>

namespace tutti::shm {
namespace {

constexpr std::size_t capacity = 16384;

// A ring whose data are mapped twice in a row.
class Memory {
 public:
  Memory() {
    const int fd = ::memfd_create("ring-test", MFD_CLOEXEC);
    EXPECT_EQ(::ftruncate(fd, capacity), 0);
    void* const space = ::mmap(nullptr, 2 * capacity, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    data = static_cast<std::byte*>(space);
    for (std::size_t half : {std::size_t{0}, capacity})
      ::mmap(data + half, capacity, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, fd, 0);
    ::close(fd);
  }
  ~Memory() { ::munmap(data, 2 * capacity); }
  RingWriter writer() { return {*indices, data, capacity}; }
  RingReader reader() { return {*indices, data, capacity}; }

  std::unique_ptr<RingIndices> indices = std::make_unique<RingIndices>();
  std::byte* data = nullptr;
};

std::byte expected(std::uint64_t position) { return static_cast<std::byte>((position * 2654435761u) >> 13); }

TEST(ShmRing, ShowsNothingBeforePublish) {
  Memory memory;
  RingWriter writer = memory.writer();
  RingReader reader = memory.reader();
  const std::vector<std::byte> some(100, std::byte{7});
  EXPECT_EQ(writer.put(some), 100u);
  EXPECT_EQ(writer.unpublished(), 100u);
  EXPECT_TRUE(reader.empty());
  EXPECT_TRUE(reader.peek().empty());
  writer.publish();
  EXPECT_EQ(reader.peek().size(), 100u);
  reader.consume(60);
  EXPECT_EQ(reader.peek().size(), 40u);
}

TEST(ShmRing, TakesExactlyItsCapacity) {
  Memory memory;
  RingWriter writer = memory.writer();
  RingReader reader = memory.reader();
  const std::vector<std::byte> much(capacity + 1, std::byte{1});
  for (int lap = 0; lap < 5; ++lap) {
    EXPECT_EQ(writer.put(much), capacity);
    EXPECT_EQ(writer.put(much), 0u);
    EXPECT_FALSE(writer.drained_since_full());
    writer.publish();
    ASSERT_EQ(reader.peek().size(), capacity);
    reader.consume(1000);
    EXPECT_TRUE(writer.drained_since_full());
    EXPECT_EQ(writer.put(much), 1000u);
    writer.publish();
    EXPECT_EQ(reader.peek().size(), capacity);
    reader.consume(capacity);
    EXPECT_TRUE(reader.still_empty());
  }
}

TEST(ShmRing, NeverReadsPastTheMapping) {
  Memory memory;
  memory.indices->head.store(1u << 30);  // corruption by a peer
  EXPECT_EQ(memory.reader().peek().size(), capacity);
}

TEST(ShmRing, CarriesRandomPiecesInOrder) {
  Memory memory;
  constexpr std::uint64_t total = 8u << 20;
  std::thread producer([&] {
    RingWriter writer = memory.writer();
    std::mt19937 random(1);
    std::vector<std::byte> piece(2 * capacity);
    for (std::uint64_t at = 0; at < total;) {
      const std::size_t size = std::min<std::uint64_t>(1 + random() % (random() % 8 ? 300 : piece.size()), total - at);
      for (std::size_t i = 0; i < size; ++i) piece[i] = expected(at + i);
      for (std::size_t done = 0; done < size;) {
        const std::size_t n = writer.put(ConstBytes(piece).subspan(done, size - done));
        done += n;
        if (n != 0) writer.publish();
        if (n == 0) std::this_thread::yield();
      }
      at += size;
    }
  });
  RingReader reader = memory.reader();
  std::mt19937 random(2);
  std::uint64_t wrong = 0;
  for (std::uint64_t at = 0; at < total;) {
    const ConstBytes seen = reader.peek();
    if (seen.empty()) {
      std::this_thread::yield();
      continue;
    }
    const std::size_t take = 1 + random() % seen.size();
    for (std::size_t i = 0; i < take; ++i) wrong += seen[i] != expected(at + i);
    reader.consume(take);
    at += take;
  }
  producer.join();
  EXPECT_EQ(wrong, 0u);
}

// A rank that sleeps whenever it can and is woken by the other rank only, so that a lost wake-up hangs the test.
struct Sleeper {
  std::atomic<Sleep> sleep{Sleep::awake};
  std::counting_semaphore<1 << 30> doorbell{0};

  void look_and_ring(Sleep least) {
    if (sleep.load(std::memory_order_seq_cst) >= least) doorbell.release();
  }
  template <class Awaited>
  void nap(Sleep how, Awaited awaited) {
    sleep.store(how, std::memory_order_seq_cst);
    if (!awaited()) doorbell.acquire();
    sleep.store(Sleep::awake, std::memory_order_release);
    while (doorbell.try_acquire()) {
    }
  }
};

TEST(ShmRing, NeverLosesAWakeUp) {
  Memory memory;
  Sleeper producing, consuming;
  constexpr std::uint64_t total = 4u << 20;
  std::thread producer([&] {
    RingWriter writer = memory.writer();
    const std::vector<std::byte> piece(3000);
    for (std::uint64_t at = 0; at < total;) {
      const std::size_t n = writer.put(ConstBytes(piece).first(std::min<std::uint64_t>(1 + at % 3000, total - at)));
      at += n;
      if (n == 0) {
        producing.nap(Sleep::for_data_or_space, [&] { return writer.drained_since_full(); });
        continue;
      }
      writer.publish();
      consuming.look_and_ring(Sleep::for_data);
    }
  });
  RingReader reader = memory.reader();
  for (std::uint64_t at = 0; at < total;) {
    const std::size_t n = reader.peek().size();
    if (n == 0) {
      consuming.nap(Sleep::for_data, [&] { return !reader.still_empty(); });
      continue;
    }
    at += n;
    reader.consume(n);
    producing.look_and_ring(Sleep::for_data_or_space);
  }
  producer.join();
  EXPECT_TRUE(reader.empty());
}

}  // namespace
}  // namespace tutti::shm
