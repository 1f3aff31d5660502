// Completer: threads that complete Works. Completion may run callbacks and free tensors, so the thread that drives
// progress must not do it.
#pragma once

#include <c10/util/intrusive_ptr.h>

#include <condition_variable>
#include <deque>
#include <mutex>

#include "bindings/torch/group.hpp"
#include "tutti/clock.hpp"

namespace tutti::torch_binding {

class Work;

/// A new thread is started when all others are busy, up to eight. The thread that drives progress only hands Works
/// over. These threads run callbacks of C++ only; callbacks of Python run in a CallbackQueue.
///
/// A thread drops its reference to a Work last, because that may free tensors, which takes the GIL. close() makes sure
/// that no thread does so while Python exits.
class Completer {
 public:
  /// The instance of this process; never destroyed.
  static Completer& instance();

  /// Announces a Work of the group that will be handed over, or a callback that will run. Throws Error if a thread is
  /// needed and cannot be started.
  void expect(Group& group);
  void hand_over(c10::intrusive_ptr<Work> work);
  /// Ends one announcement of expect().
  void release(Group& group);
  /// Blocks until all announced Works of the group have been completed and released, and its callbacks have run.
  /// Returns false at `until`. Call it without the GIL.
  bool drain(Group& group, Deadline until);
  /// Afterwards these threads no longer use Python, and Works that are handed over are leaked.
  void close();
  /// For threads that are about to use Python: returns at once before close(), blocks for ever after it.
  void block_if_closed();

 private:
  void run();
  void block_for_ever(std::unique_lock<std::mutex>& lock);

  static constexpr int most_threads = 8;
  std::mutex mutex_;
  std::condition_variable arrived_, left_;
  std::deque<c10::intrusive_ptr<Work>> queue_;
  int threads_ = 0, idle_ = 0;
  bool closed_ = false;
};

}  // namespace tutti::torch_binding
