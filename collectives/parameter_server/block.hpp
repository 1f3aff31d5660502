// Block: reference-counted memory.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstring>
#include <memory>

#include "tutti/buffer.hpp"

namespace tutti {

/// Copies share the memory; it is freed with the last copy or lease. All copies must be used by one thread at a time;
/// leases may be released on any thread.
class Block {
 public:
  Block() = default;
  /// The memory is not initialised.
  explicit Block(std::size_t bytes) : memory_(std::make_shared<Memory>(bytes)), size_(bytes) {}
  static Block zeroed(std::size_t bytes) {
    Block made(bytes);
    if (bytes > 0) std::memset(made.data(), 0, bytes);
    return made;
  }
  static Block copy_of(ConstBytes bytes) {
    Block made(bytes.size());
    if (!bytes.empty()) std::memcpy(made.data(), bytes.data(), bytes.size());
    return made;
  }

  std::byte* data() const noexcept { return memory_ ? memory_->bytes.get() : nullptr; }
  std::size_t size() const noexcept { return size_; }
  Bytes bytes() const noexcept { return {data(), size_}; }

  /// Returns an owner that keeps the memory alive, for CallOptions::keep. The block must not be default-constructed.
  std::shared_ptr<const void> lease() const {
    memory_->leases.fetch_add(1, std::memory_order_relaxed);
    return {data(), [memory = memory_](const void*) { memory->leases.fetch_sub(1, std::memory_order_release); }};
  }
  /// Returns true if other copies or leases exist. If it returns false, all accesses under earlier leases happened
  /// before this call.
  bool is_shared() const noexcept {
    return memory_.use_count() > 1 || (memory_ && memory_->leases.load(std::memory_order_acquire) > 0);
  }

 private:
  struct Memory {
    explicit Memory(std::size_t size) : bytes(std::make_unique_for_overwrite<std::byte[]>(size)) {}
    std::unique_ptr<std::byte[]> bytes;
    std::atomic<int> leases{0};  // counted separately because use_count() does not synchronize
  };
  std::shared_ptr<Memory> memory_;
  std::size_t size_ = 0;
};

}  // namespace tutti
