// Ref: an intrusive reference-counted pointer.
#pragma once

#include <utility>

namespace tutti {

/// T provides retain() and release(). Threads: as std::shared_ptr.
template <class T>
class Ref {
 public:
  Ref() noexcept = default;
  explicit Ref(T& one) noexcept : to_(&one) { to_->retain(); }
  Ref(const Ref& other) noexcept : to_(other.to_) {
    if (to_ != nullptr) to_->retain();
  }
  Ref(Ref&& other) noexcept : to_(std::exchange(other.to_, nullptr)) {}
  Ref& operator=(Ref other) noexcept {
    std::swap(to_, other.to_);
    return *this;
  }
  ~Ref() {
    if (to_ != nullptr) to_->release();
  }

  /// Takes over a reference that is counted already.
  static Ref adopt(T& one) noexcept {
    Ref made;
    made.to_ = &one;
    return made;
  }

  T& operator*() const noexcept { return *to_; }
  T* operator->() const noexcept { return to_; }
  explicit operator bool() const noexcept { return to_ != nullptr; }

 private:
  T* to_ = nullptr;
};

}  // namespace tutti
