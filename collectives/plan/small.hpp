// Small: a list of plain values that allocates no memory while it is short.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <type_traits>
#include <vector>

namespace tutti {

/// Up to N values are stored inside the object. A longer list stores all its values on the heap.
template <typename T, std::size_t N>
class Small {
  static_assert(std::is_trivially_copyable_v<T>);

 public:
  Small() noexcept {}
  Small(const Small& other) { *this = other; }
  Small& operator=(const Small& other) {
    if (this == &other) return *this;
    size_ = other.size_;
    beyond_ = other.beyond_;
    if (beyond_.empty()) std::copy_n(other.inside_.data(), size_, inside_.data());
    return *this;
  }
  ~Small() = default;

  std::size_t size() const noexcept { return size_; }
  bool empty() const noexcept { return size_ == 0; }
  T* data() noexcept { return beyond_.empty() ? inside_.data() : beyond_.data(); }
  const T* data() const noexcept { return beyond_.empty() ? inside_.data() : beyond_.data(); }
  T& operator[](std::size_t i) noexcept { return data()[i]; }
  const T& operator[](std::size_t i) const noexcept { return data()[i]; }
  T* begin() noexcept { return data(); }
  T* end() noexcept { return data() + size_; }
  const T* begin() const noexcept { return data(); }
  const T* end() const noexcept { return data() + size_; }

  /// Appends `more` values without setting them, which the caller must do. Returns a pointer to the first of them.
  T* extend(std::size_t more) {
    if (size_ + more > N) {
      if (beyond_.empty()) beyond_.assign(inside_.begin(), inside_.begin() + static_cast<std::ptrdiff_t>(size_));
      beyond_.resize(size_ + more);
    }
    size_ += more;
    return data() + size_ - more;
  }
  void push_back(T value) { *extend(1) = value; }

  /// The bytes of the list on the heap.
  std::size_t allocated() const noexcept { return beyond_.capacity() * sizeof(T); }

 private:
  std::size_t size_ = 0;
  std::array<T, N> inside_;
  std::vector<T> beyond_;  // all values, once there are more than N
};

}  // namespace tutti
