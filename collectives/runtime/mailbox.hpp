// Mailbox: the control messages of one communicator on their way to the user's handler.
#pragma once

#include <deque>
#include <functional>
#include <mutex>
#include <utility>
#include <vector>

#include "transports/core/buffer.hpp"

namespace tutti {

/// See Communicator::on_control. Any thread.
class Mailbox {
 public:
  using Handler = std::function<void(int from, ConstBytes message)>;

  void set(Handler handler) {
    const std::lock_guard lock(mutex_);
    handler_.swap(handler);
  }  // the old one goes after the mutex has been left

  void put(int from, ConstBytes message) {
    const std::lock_guard lock(mutex_);
    letters_.push_back({from, {message.begin(), message.end()}});
  }

  /// Gives the handler what is there, one after the other, unless another thread is at it. What it throws is thrown
  /// here, and the next run() goes on.
  void run();

 private:
  struct Letter {
    int from;  // a rank of the communicator
    std::vector<std::byte> message;
  };
  std::mutex mutex_;
  Handler handler_;
  std::deque<Letter> letters_;
  bool runs_ = false;
};

}  // namespace tutti
