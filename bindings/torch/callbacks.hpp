// CallbackQueue: runs the Python callbacks of a process group's futures one after the other.
#pragma once

#include <ATen/core/ivalue.h>

#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <vector>

namespace tutti::torch_binding {

class Group;

/// A callback that has been attached to a future.
struct Callback {
  c10::intrusive_ptr<c10::ivalue::Future> after;  ///< the callback runs when this future is completed
  std::function<void()> run;                      ///< must not throw
  bool ordered = true;                            ///< false: for a send or receive; other callbacks do not wait for it
  std::shared_ptr<Group> group;
};

/// Runs callbacks on a thread of its own, in the order in which they were attached; that order is equal on all ranks.
///
/// Callbacks may launch calls, wait for them, and attach callbacks to their futures. Callbacks that are attached
/// outside of callbacks form one queue, callbacks that are attached by callbacks of this queue form another, and so on.
/// A callback that waits for such a nested callback thus does not block it, and the order never depends on timing.
/// Calls that the callbacks of a queue launch use a separate communicator; see Group::communicator_here().
///
/// Threads: any. The queue's thread starts with the first callback and ends after a second without callbacks.
class CallbackQueue : public std::enable_shared_from_this<CallbackQueue> {
 public:
  /// From this depth on, callbacks that a callback attaches stay in the same queue, directly after it. This limits the
  /// number of threads for a chain in which each callback attaches the next.
  static constexpr std::size_t deepest = 64;

  /// A group with futures that have callbacks.
  struct Source {
    std::string id;
    std::vector<std::int64_t> members;
  };

  /// `sources`: the groups on the path to this queue, outermost first. Callbacks on futures of each group attach the
  /// callbacks on futures of the next; the last is the group of this queue.
  explicit CallbackQueue(std::vector<Source> sources) : sources_(std::move(sources)) {}

  /// The queue whose callback the calling thread runs; nullptr outside of callbacks.
  static CallbackQueue* current() noexcept;

  const std::vector<Source>& sources() const noexcept { return sources_; }
  bool is_deepest() const noexcept { return sources_.size() >= deepest; }
  /// The name of this queue for calls on a group with these members; equal on all of them. It contains the id of each
  /// source that has all members. Other sources, such as rows of a mesh, differ between members and appear as "~".
  std::string name_within(std::span<const std::int64_t> members) const;
  void push(Callback callback);

 private:
  void start(Group& group);  // the thread; throws Error if it cannot be started
  void run();
  void run_one(std::unique_lock<std::mutex>& lock, std::deque<Callback>::iterator which);
  std::deque<Callback>::iterator next();

  const std::vector<Source> sources_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<Callback> queue_;
  std::deque<Callback> nested_;  // attached by the callback that is running; used by the queue's thread only
  bool running_ = false;
};

}  // namespace tutti::torch_binding
