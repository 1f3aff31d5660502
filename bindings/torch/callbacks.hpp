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
  c10::intrusive_ptr<c10::ivalue::Future> after;  ///< runs when this is completed
  std::function<void()> run;                      ///< must not throw
  bool ordered = true;                            ///< false: of a message, which others do not wait for
  std::shared_ptr<Group> group;
};

/// Runs callbacks in the order in which they were attached, which is the same on all ranks, on a thread of its own.
///
/// Callbacks may launch calls and wait for them, and may attach callbacks to the futures of these. So that one that
/// waits for another cannot keep it from running, and so that the order never depends on timing, the callbacks that
/// are attached by a thread outside of callbacks form one queue, those that are attached by callbacks of this queue
/// another one, and so on. The calls that callbacks of a queue launch have a communicator of their own; see
/// Group::communicator_here().
///
/// Threads: any. The thread starts with the first callback and ends when it has had nothing to do for a while.
class CallbackQueue : public std::enable_shared_from_this<CallbackQueue> {
 public:
  /// From this depth on, the callbacks of callbacks are put into the same queue, right behind the one that attached
  /// them: a chain of callbacks, each attached by the one before, would else take a thread for each.
  static constexpr std::size_t deepest = 64;

  /// A group to whose futures callbacks are attached.
  struct Source {
    std::string id;
    std::vector<std::int64_t> members;
  };

  /// `sources`: of the callback that attaches the callbacks of this queue, and so on; last the group of this queue.
  explicit CallbackQueue(std::vector<Source> sources) : sources_(std::move(sources)) {}

  /// The queue whose callback the calling thread runs; nullptr outside of callbacks.
  static CallbackQueue* current() noexcept;

  const std::vector<Source>& sources() const noexcept { return sources_; }
  bool is_deepest() const noexcept { return sources_.size() >= deepest; }
  /// The name of this queue for calls on a group with these members; the same on all of them. Sources that have all of
  /// the members are told apart; others, such as the own row of a mesh, are other ones on other members.
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
  std::deque<Callback> nested_;  // of the callback that runs; used by its thread only
  bool running_ = false;
};

}  // namespace tutti::torch_binding
