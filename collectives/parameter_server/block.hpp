// Block: memory that several may hold, and whose last holder frees it.
#pragma once

#include <cstddef>
#include <cstring>
#include <memory>

#include "transports/core/buffer.hpp"

namespace tutti {

/// Copies are the same memory. Threads: as a shared_ptr.
class Block {
 public:
  Block() = default;
  /// Not zeroed.
  explicit Block(std::size_t bytes) : memory_(std::make_shared_for_overwrite<std::byte[]>(bytes)), size_(bytes) {}
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

  std::byte* data() const noexcept { return memory_.get(); }
  std::size_t size() const noexcept { return size_; }
  Bytes bytes() const noexcept { return {data(), size_}; }
  bool is_shared() const noexcept { return memory_.use_count() > 1; }
  const std::shared_ptr<std::byte[]>& owner() const noexcept { return memory_; }

 private:
  std::shared_ptr<std::byte[]> memory_;
  std::size_t size_ = 0;
};

}  // namespace tutti
