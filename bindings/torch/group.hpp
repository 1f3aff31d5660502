// Group: the state that a process group's Backend and its Works share.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "tutti/communicator.hpp"
#include "tutti/fork.hpp"

namespace tutti::torch_binding {

class CallbackQueue;

/// The communicator of a process group, until the group is shut down. Any thread.
class Group {
 public:
  /// `id` names the group, alike on all of its ranks.
  Group(std::string name, std::string id, std::chrono::milliseconds timeout, std::vector<std::int64_t> members)
      : name_(std::move(name)), id_(std::move(id)), timeout_(timeout.count()), members_(std::move(members)) {}

  void open(Communicator communicator);
  /// Throws DistBackendError after shutdown.
  Communicator communicator() const;
  std::optional<Communicator> find() const;
  /// The communicator for a collective that this thread launches: the group's, or within callbacks one of the same
  /// ranks for the callbacks of that queue, as the order of what they launch and what other threads do is not the same
  /// on all ranks. Makes it when it is first asked for, which blocks until all ranks do so.
  Communicator communicator_here();
  /// The queue for callbacks that this thread attaches to futures of the group.
  std::shared_ptr<CallbackQueue> callback_queue();
  /// Fails all calls of the group on all ranks.
  void abort(const std::string& why);
  /// Releases the communicator. The last one of a job disconnects from the other ranks.
  void close();

  const std::string& name() const noexcept { return name_; }
  std::chrono::milliseconds timeout() const noexcept { return std::chrono::milliseconds(timeout_.load()); }
  void set_timeout(std::chrono::milliseconds limit) noexcept { timeout_ = limit.count(); }
  /// The group's ranks in the default group, by rank in this group.
  const std::vector<std::int64_t>& members() const noexcept { return members_; }

  /// Stores the first failure of a Work, for Backend::getError().
  void note(Code code) noexcept;
  Code failure() const noexcept { return failure_; }

  /// True if this process was forked after the group was made; the group then belongs to the parent.
  bool is_parents() const noexcept { return born_in_ != fork_generation(); }

  int held = 0;  ///< Works and callbacks announced to the Completer and not yet released; guarded by its mutex

 private:
  struct OfCallbacks {
    std::mutex making;
    std::optional<Communicator> communicator;  // guarded by mutex_ too
  };

  const std::uint32_t born_in_ = fork_generation();
  const std::string name_, id_;
  std::atomic<std::chrono::milliseconds::rep> timeout_;
  const std::vector<std::int64_t> members_;
  std::atomic<Code> failure_{Code::ok};
  mutable std::mutex mutex_;
  std::optional<Communicator> communicator_;
  std::map<std::string, std::shared_ptr<OfCallbacks>> of_callbacks_;  // by the name of the queue that launches
  /// By the queue that attaches, or an empty pointer; weak ones, as another queue may come to lie at the same address.
  std::map<std::weak_ptr<CallbackQueue>, std::shared_ptr<CallbackQueue>, std::owner_less<>> queues_;
};

/// The groups of this process that have a job of their own, oldest first.
namespace worlds {
void add(const std::shared_ptr<Group>& world);
/// Splits a communicator for `members` (ranks of the default group, one of them `self`) from the oldest of these groups
/// that has all of them; nullopt if there is none. Collective over `members` only; blocks.
std::optional<Communicator> group_within(std::span<const std::int64_t> members, std::int64_t self,
                                         const std::string& name);
}  // namespace worlds

}  // namespace tutti::torch_binding
