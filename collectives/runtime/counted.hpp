// Counted: a scoped counter of active threads.
#pragma once

#include <atomic>

namespace tutti {

/// Increments a counter for its lifetime.
class Counted {
 public:
  explicit Counted(std::atomic<int>& count) : count_(count) { count_.fetch_add(1); }
  Counted(const Counted&) = delete;
  Counted& operator=(const Counted&) = delete;
  ~Counted() { count_.fetch_sub(1); }

 private:
  std::atomic<int>& count_;
};

}  // namespace tutti
