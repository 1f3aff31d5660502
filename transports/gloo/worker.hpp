// Worker: the thread that performs a communicator's calls with Gloo, which blocks.
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

#include "transports/core/descriptor.hpp"
#include "transports/gloo/mesh.hpp"
#include "tutti/provider/backend.hpp"

namespace tutti {

/// Threads: all functions are called with the progress token (the context's lock) held, or by the constructing thread.
class Worker final : private Tracker {
 public:
  /// Connects the mesh on the new thread. Throws that thread's exception, at meeting.until at the latest.
  explicit Worker(const BackendMeeting& meeting);
  ~Worker();

  /// Starts a call with one of gloo_algorithms().
  void play(Call& call);

  /// The calls that have completed since the last take_news(), in order. If the next call has failed, `troubled` is
  /// that call and `trouble` is its failure.
  struct News {
    std::vector<Call*> ended;
    Status trouble;
    Call* troubled = nullptr;
  };
  bool has_news() const noexcept { return has_news_.load(std::memory_order_acquire); }
  News take_news();

  /// Stops the current call, closes the mesh, and returns all remaining calls. Nothing uses their buffers after that.
  std::vector<Call*> cancel();

  /// As Engine::fds() and arm().
  int bell() const noexcept { return bell_.fd(); }
  bool arm(bool on);

 private:
  std::string where(const Call& call) const override;
  void run(const BackendMeeting* meeting);
  bool connect(const BackendMeeting& meeting);
  void serve();
  Status attempt(const Call& call);
  Status failure(const Call& call, const std::string& text, int peer) const;
  void tell();   // mutex_ held
  void quiet();  // mutex_ held

  const Group group_;
  const std::shared_ptr<Guard> guard_ = std::make_shared<Guard>();
  std::unique_ptr<Mesh> mesh_;  // used by the thread
  Descriptor bell_;

  mutable std::mutex mutex_;
  std::condition_variable wake_, calm_;  // the thread waits for wake_, others for calm_
  bool connecting_ = true, cancelled_ = false, stopping_ = false, playing_ = false, armed_ = false, rung_ = false;
  std::exception_ptr unconnected_;
  std::deque<Call*> calls_;  // started, and not returned yet
  std::size_t done_ = 0;     // number of completed calls at the front
  Status trouble_;
  bool told_ = false;  // the failure has been reported
  std::atomic<bool> has_news_{false};
  std::thread thread_;
};

}  // namespace tutti
