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
  /// `id` names the group; equal on all of its ranks.
  Group(std::string name, std::string id, std::chrono::milliseconds timeout, std::vector<std::int64_t> members)
      : name_(std::move(name)), id_(std::move(id)), timeout_(timeout.count()), members_(std::move(members)) {}

  void open(Communicator communicator);
  /// Throws DistBackendError after shutdown.
  Communicator communicator() const;
  std::optional<Communicator> find() const;
  /// The communicator for a collective that this thread launches. Outside of callbacks it is the group's. Inside a
  /// callback it is one of the same ranks for the callback's queue, because the order between calls of callbacks and of
  /// other threads differs between ranks. The first call for a queue makes it: collective, blocks.
  Communicator communicator_here();
  /// The queue for callbacks that this thread attaches to futures of the group.
  std::shared_ptr<CallbackQueue> callback_queue();
  /// Fails all calls of the group on all ranks.
  void abort(const std::string& why);
  /// Releases the communicators. The last communicator of a job disconnects from the other ranks.
  void close();

  const std::string& name() const noexcept { return name_; }
  const std::string& id() const noexcept { return id_; }
  std::chrono::milliseconds timeout() const noexcept { return std::chrono::milliseconds(timeout_.load()); }
  void set_timeout(std::chrono::milliseconds limit) noexcept { timeout_ = limit.count(); }
  /// The group's ranks in the default group, by rank in this group.
  const std::vector<std::int64_t>& members() const noexcept { return members_; }

  /// Stores the first failure of a Work, for Backend::getError(), and dumps the flight recorder.
  void note(Code code) noexcept;
  Code failure() const noexcept { return failure_; }

  /// True if this process was forked after the group was made; the group then belongs to the parent.
  bool is_parents() const noexcept { return born_in_ != fork_generation(); }

  int held = 0;  ///< Works and callbacks announced to the Completer and not yet released; guarded by its mutex

 private:
  struct OfCallbacks {
    std::mutex making;
    std::optional<Communicator> communicator;  // guarded by `making` and by Group::mutex_
  };

  const std::uint32_t born_in_ = fork_generation();
  const std::string name_, id_;
  std::atomic<std::chrono::milliseconds::rep> timeout_;
  const std::vector<std::int64_t> members_;
  std::atomic<Code> failure_{Code::ok};
  mutable std::mutex mutex_;
  std::optional<Communicator> communicator_;
  std::map<std::string, std::shared_ptr<OfCallbacks>> of_callbacks_;  // by the name of the queue that launches
  /// Key: the queue that attaches the callbacks; empty outside of callbacks. A weak_ptr stays unique as a key even if
  /// another queue gets the same address later.
  std::map<std::weak_ptr<CallbackQueue>, std::shared_ptr<CallbackQueue>, std::owner_less<>> queues_;
};

/// The groups of this process that are the world of a job, oldest first.
namespace worlds {
void add(const std::shared_ptr<Group>& world);
/// Makes a communicator of `members` (ranks of the default group; `self` is this rank) from the oldest of these groups
/// that contains all members; nullopt if no group does. Collective over `members` only; blocks.
std::optional<Communicator> group_within(std::span<const std::int64_t> members, std::int64_t self,
                                         const std::string& name);
/// Sends a control message to all other ranks of these groups. Ranks that cannot be reached are left out.
void tell_all(ConstBytes message);
}  // namespace worlds

}  // namespace tutti::torch_binding
