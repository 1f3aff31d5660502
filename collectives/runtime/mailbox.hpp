// Mailbox: control messages of one communicator that wait for the user's handler.
#pragma once

#include <functional>
#include <list>
#include <mutex>
#include <utility>
#include <vector>

#include "tutti/buffer.hpp"

namespace tutti {

/// See Communicator::on_control. Any thread.
class Mailbox {
 public:
  using Handler = std::function<void(int from, ConstBytes message)>;

  void set(Handler handler) {
    const std::lock_guard lock(mutex_);
    handler_.swap(handler);
  }  // the old handler is destroyed after the mutex is released

  void put(int from, ConstBytes message) {
    const std::lock_guard lock(mutex_);
    messages_.push_back({from, {message.begin(), message.end()}});
  }

  /// Calls the handler for each message, unless another thread is doing so. An exception of the handler is thrown
  /// here; the next run() continues after that message.
  void run();

 private:
  struct Message {
    int from;  // rank of the communicator
    std::vector<std::byte> bytes;
  };
  std::mutex mutex_;
  Handler handler_;
  std::list<Message> messages_;
  bool runs_ = false;
};

}  // namespace tutti
