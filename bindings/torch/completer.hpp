// Completer: threads that end Works, as what follows may be Python code that waits for further collectives.
#pragma once

#include <c10/util/intrusive_ptr.h>

#include <condition_variable>
#include <deque>
#include <mutex>

#include "bindings/torch/group.hpp"
#include "transports/core/clock.hpp"

namespace tutti::torch_binding {

class Work;

/// One thread at first, one more whenever all are busy, eight at most. Whoever drives only hands over.
///
/// Each thread gives up its reference to a Work last, as that may free tensors, which takes Python's lock. When Python
/// ends, no thread of ours may be doing that: close() sees to it.
class Completer {
 public:
  /// The process's own; never destroyed.
  static Completer& instance();

  /// A Work of the group will be handed over.
  void expect(Group& group);
  void hand_over(c10::intrusive_ptr<Work> work);
  /// Waits until no thread of ours refers to a Work of the group. False when `until` has passed. Not with the GIL.
  bool drain(Group& group, Deadline until);
  /// From here on nothing of ours touches Python: Works that end later are never freed.
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
