// ByteQueue: bytes are appended at the end and removed at the front. On average, a byte is moved at most once.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace tutti {

class ByteQueue {
 public:
  std::string_view view() const noexcept { return std::string_view(bytes_).substr(front_); }
  std::size_t size() const noexcept { return bytes_.size() - front_; }
  bool empty() const noexcept { return size() == 0; }

  void append(std::string_view more) { bytes_ += more; }

  /// Removes the first `count` bytes; `count` is at most size().
  void drop(std::size_t count) {
    front_ += count;
    if (2 * front_ < bytes_.size()) return;
    bytes_.erase(0, front_);
    front_ = 0;
    if (bytes_.empty() && bytes_.capacity() > kept_capacity) bytes_ = {};
  }
  void clear() { drop(size()); }

 private:
  static constexpr std::size_t kept_capacity = std::size_t{256} << 10;  // bytes that an empty queue keeps at most

  std::string bytes_;
  std::size_t front_ = 0;
};

}  // namespace tutti
