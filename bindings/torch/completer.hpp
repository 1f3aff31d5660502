// Completer: threads that complete Works, because their callbacks may be Python code that waits for other collectives.
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
///
/// A thread drops its reference to a Work last, because that may free tensors, which takes the GIL. close() makes sure
/// that no thread does so while Python exits.
class Completer {
 public:
  /// The instance of this process; never destroyed.
  static Completer& instance();

  /// Announces that a Work of the group will be handed over.
  void expect(Group& group);
  void hand_over(c10::intrusive_ptr<Work> work);
  /// Blocks until all announced Works of the group have been completed and released. Returns false at `until`. Call it
  /// without the GIL.
  bool drain(Group& group, Deadline until);
  /// From now on no thread uses Python: Works that are handed over later are leaked.
  void close();

 private:
  void run();

  static constexpr int most_threads = 8;
  std::mutex mutex_;
  std::condition_variable arrived_, left_;
  std::deque<c10::intrusive_ptr<Work>> queue_;
  int threads_ = 0, idle_ = 0;
  bool closed_ = false;
};

}  // namespace tutti::torch_binding
