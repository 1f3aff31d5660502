#include "collectives/runtime/mailbox.hpp"

namespace tutti {

void Mailbox::run() {
  std::unique_lock lock(mutex_);
  while (!runs_ && handler_ && !letters_.empty()) {
    runs_ = true;
    const Letter letter = std::move(letters_.front());
    letters_.pop_front();
    const Handler handler = handler_;
    lock.unlock();
    try {
      handler(letter.from, letter.message);
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
