// Counted: so many are at something now.
#pragma once

#include <atomic>

namespace tutti {

/// Adds one while it lives.
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
