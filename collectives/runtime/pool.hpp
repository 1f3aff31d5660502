// Pool: reuse of the objects of completed calls.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <memory>

namespace tutti {

/// Any thread, without locks: a thread that is descheduled in take() or give(), or between the end of a call and
/// give(), does not block other threads. Other threads seldom have to allocate because of that, since the pool creates
/// more objects than are in use at the same time.
template <class T>
class Pool {
 public:
  Pool() : slots_(std::make_unique<std::atomic<T*>[]>(most)) {}
  Pool(const Pool&) = delete;
  Pool& operator=(const Pool&) = delete;
  ~Pool() {
    for (std::size_t i = 0; i < most; ++i) delete slots_[i].load();
  }

  T* take() {
    const std::size_t end = end_.load(std::memory_order_relaxed);
    for (std::size_t i = 1; i <= most; ++i) {
      const std::size_t at = (end - i) % most;
      if (slots_[at].load(std::memory_order_relaxed) == nullptr) continue;
      std::unique_ptr<T> found(slots_[at].exchange(nullptr, std::memory_order_acquire));
      if (!found) continue;
      end_.store(at, std::memory_order_relaxed);
      if (at == 0) grow_if_empty();
      return found.release();
    }
    auto made = std::make_unique<T>();
    made_.fetch_add(1, std::memory_order_relaxed);
    grow_if_empty();
    return made.release();
  }

  void give(T* one) noexcept {
    const std::size_t end = end_.load(std::memory_order_relaxed);
    for (std::size_t i = 0; i < most; ++i) {
      const std::size_t at = (end + i) % most;
      T* none = nullptr;
      if (slots_[at].load(std::memory_order_relaxed) != nullptr) continue;
      if (!slots_[at].compare_exchange_strong(none, one, std::memory_order_release, std::memory_order_relaxed))
        continue;
      end_.store(at + 1, std::memory_order_relaxed);
      return;
    }
    delete one;
  }

 private:
  static constexpr std::size_t most = 256;  // a power of two, as `end - i` may wrap around

  // If no object is free, doubles the number of objects, to at least 16 and at most `most`. Then take() finds a
  // free object even while another thread is late to give one back.
  void grow_if_empty() {
    for (std::size_t i = 0; i < most; ++i)
      if (slots_[i].load(std::memory_order_relaxed) != nullptr) return;
    const std::size_t there = made_.load(std::memory_order_relaxed);
    for (std::size_t more = std::max<std::size_t>(there, 15); more > 0 && made_ < most; --more) {
      give(new T);
      made_.fetch_add(1, std::memory_order_relaxed);
    }
  }

  const std::unique_ptr<std::atomic<T*>[]> slots_;  // the free objects; null: an empty slot
  std::atomic<std::size_t> made_{0};                // number of objects created
  std::atomic<std::size_t> end_{0};                 // index after the slot that was filled last; searches start there
};

}  // namespace tutti
