// Pulse: a worker's heartbeat to its servers.
#pragma once

#include <condition_variable>
#include <memory>
#include <mutex>
#include <thread>

#include "collectives/parameter_server/request.hpp"
#include "tutti/threads.hpp"

namespace tutti {

/// Sends one message without a reply to each server every `every` seconds, on a thread of its own, until the object is
/// destroyed or no server can be reached.
class Pulse {
 public:
  Pulse(std::shared_ptr<Outbox> outbox, Seconds every)
      : outbox_(std::move(outbox)),
        every_(every),
        thread_(start_thread("tells servers that this worker lives", [this] { beat(); })) {}
  ~Pulse() {
    {
      const std::lock_guard lock(mutex_);
      ends_ = true;
    }
    changed_.notify_all();
    thread_.join();
  }
  Pulse(const Pulse&) = delete;
  Pulse& operator=(const Pulse&) = delete;

 private:
  void beat() noexcept {
    std::unique_lock lock(mutex_);
    while (!changed_.wait_for(lock, every_, [this] { return ends_; })) {
      lock.unlock();
      bool is_heard = false;
      for (const Link& link : outbox_->links()) is_heard |= tell(link);
      if (!is_heard) return;
      lock.lock();
    }
  }

  bool tell(const Link& link) noexcept {
    try {
      const std::lock_guard order(outbox_->order());
      Communicator pair = link.pair;
      const Block head = request_head({.verb = protocol::Verb::alive});
      (void)pair.send(ConstBuffer(head.data(), head.size(), DType::u8), link.peer, protocol::requests,
                      {.keep = head.lease()});
      return true;
    } catch (...) {  // the server is gone
      return false;
    }
  }

  const std::shared_ptr<Outbox> outbox_;
  const Seconds every_;
  std::mutex mutex_;
  std::condition_variable changed_;
  bool ends_ = false;
  std::thread thread_;
};

}  // namespace tutti
