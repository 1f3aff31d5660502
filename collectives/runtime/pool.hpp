// Pool: reuse of the objects of completed calls.
#pragma once

#include <atomic>
#include <cstddef>
#include <memory>
#include <vector>

#include "transports/core/relax.hpp"

namespace tutti {

/// Any thread. take() and give() never wait for a thread that was descheduled in them: they allocate or delete an
/// object instead.
template <class T>
class Pool {
 public:
  Pool() { spare_.reserve(most); }

  T* take() {
    std::unique_ptr<T> found;
    if (enter()) {
      if (!spare_.empty()) {
        found = std::move(spare_.back());
        spare_.pop_back();
      }
      leave();
    }
    if (!found) found = std::make_unique<T>();
    return found.release();
  }

  void give(T* one) noexcept {
    std::unique_ptr<T> kept(one);
    if (!enter()) return;
    if (spare_.size() < most) spare_.push_back(std::move(kept));
    leave();
  }

 private:
  static constexpr std::size_t most = 256;
  bool enter() noexcept {
    for (int looks = 0; looks < 200; ++looks) {
      if (!busy_.load(std::memory_order_relaxed) && !busy_.exchange(true, std::memory_order_acquire)) return true;
      relax();
    }
    return false;
  }
  void leave() noexcept { busy_.store(false, std::memory_order_release); }

  std::atomic<bool> busy_{false};
  std::vector<std::unique_ptr<T>> spare_;
};

}  // namespace tutti
