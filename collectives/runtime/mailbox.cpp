#include "collectives/runtime/mailbox.hpp"

namespace tutti {

void Mailbox::run() {
  std::unique_lock lock(mutex_);
  while (!runs_ && handler_ && !messages_.empty()) {
    runs_ = true;
    const Message message = std::move(messages_.front());
    messages_.pop_front();
    const Handler handler = handler_;
    lock.unlock();
    try {
      handler(message.from, message.bytes);
    } catch (...) {
      lock.lock();
      runs_ = false;
      throw;
    }
    lock.lock();
    runs_ = false;
  }
}

}  // namespace tutti
