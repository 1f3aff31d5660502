// Completer: threads that complete Works, because that may run callbacks and free tensors.
#pragma once

#include <c10/util/intrusive_ptr.h>

#include <condition_variable>
#include <deque>
#include <mutex>

#include "bindings/torch/group.hpp"
#include "tutti/clock.hpp"

namespace tutti::torch_binding {

class Work;

/// Threads are started when all others are busy, up to eight. The thread that drives progress only hands Works over.
/// Callbacks that Python attaches have queues of their own (CallbackQueue), so these threads run those of C++ alone.
///
/// A thread drops its reference to a Work last, because that may free tensors, which takes the GIL. close() makes sure
/// that no thread does so while Python exits.
class Completer {
 public:
  /// The instance of this process; never destroyed.
  static Completer& instance();

  /// Announces that a Work of the group will be handed over, or a callback run.
  void expect(Group& group);
  void hand_over(c10::intrusive_ptr<Work> work);
  /// Takes back what expect() announced.
  void release(Group& group);
  /// Blocks until all announced Works of the group have been completed and released, and its callbacks have run.
  /// Returns false at `until`. Call it without the GIL.
  bool drain(Group& group, Deadline until);
  /// From now on no thread uses Python: Works that are handed over later are leaked.
  void close();
  /// Blocks for ever after close(); for threads that are about to use Python.
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
