// Worker: the thread that plays a communicator's calls by Gloo, which blocks.
#pragma once

#include <atomic>
#include <condition_variable>
#include <deque>
#include <exception>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "transports/backend.hpp"
#include "transports/core/descriptor.hpp"
#include "transports/gloo/mesh.hpp"

namespace tutti {

/// Threads: every function by the holder of the token, or by whoever makes it.
class Worker {
 public:
  /// Connects the mesh on the new thread. Throws what that threw, at meeting.until at the latest.
  explicit Worker(const BackendMeeting& meeting);
  ~Worker();

  /// By one of gloo_algorithms().
  void play(Call& call);

  /// What has happened since: the calls that have ended well, in their order, and a failure of the one after them.
  struct News {
    std::vector<Call*> ended;
    Status trouble;
    Call* troubled = nullptr;
  };
  bool has_news() const noexcept { return has_news_.load(std::memory_order_acquire); }
  News take_news();

  /// Ends the call under way, closes the mesh, and hands back all calls, whose buffers nobody touches any more.
  std::vector<Call*> cancel();

  /// As Engine::fds() and arm().
  int bell() const noexcept { return bell_.fd(); }
  bool arm(bool on);

  std::string where(std::uint32_t sequence) const;

 private:
  void run(const BackendMeeting* meeting);
  bool connect(const BackendMeeting& meeting);
  void serve();
  Status attempt(const Call& call);
  Status failure(const Call& call, const std::string& text, int peer) const;
  void tell();   // with mutex_ held
  void quiet();  // with mutex_ held

  const Group group_;
  const std::shared_ptr<Guard> guard_ = std::make_shared<Guard>();
  std::unique_ptr<Mesh> mesh_;  // the thread's
  Descriptor bell_;

  mutable std::mutex mutex_;
  std::condition_variable wake_, calm_;  // the thread waits for the first, others for the second
  bool connecting_ = true, cancelled_ = false, stopping_ = false, playing_ = false, armed_ = false, rung_ = false;
  std::exception_ptr unconnected_;
  std::deque<Call*> calls_;  // not handed back yet
  std::size_t done_ = 0;     // of them, from the front: ended well
  Status trouble_;
  bool told_ = false;  // of the trouble
  std::atomic<bool> has_news_{false};
  std::thread thread_;
};

}  // namespace tutti
