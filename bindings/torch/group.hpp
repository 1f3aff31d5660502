// Group: what a process group's Backend and its Works share.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "collectives/api/communicator.hpp"
#include "transports/core/fork.hpp"

namespace tutti::torch_binding {

/// The communicator of a process group until the group is shut down. Threads: any.
class Group {
 public:
  Group(std::string name, std::chrono::milliseconds timeout, std::vector<std::int64_t> members)
      : name_(std::move(name)), timeout_(timeout.count()), members_(std::move(members)) {}

  void open(Communicator communicator);
  /// Throws DistBackendError where it has been shut down.
  Communicator communicator() const;
  std::optional<Communicator> find() const;
  /// Drops the communicator: the last one of a world says goodbye to the other ranks.
  void close();

  const std::string& name() const noexcept { return name_; }
  std::chrono::milliseconds timeout() const noexcept { return std::chrono::milliseconds(timeout_.load()); }
  void set_timeout(std::chrono::milliseconds limit) noexcept { timeout_ = limit.count(); }
  /// Ranks of the default group, by rank here.
  const std::vector<std::int64_t>& members() const noexcept { return members_; }

  /// The first failure that a Work has seen, for Backend::getError().
  void note(Code code) noexcept;
  Code failure() const noexcept { return failure_; }

  /// Whether this process was forked since it was made: then it is not ours.
  bool is_parents() const noexcept { return born_in_ != fork_generation(); }

  int held = 0;  ///< Works that threads of ours refer to; the Completer's

 private:
  const std::uint32_t born_in_ = fork_generation();
  const std::string name_;
  std::atomic<std::chrono::milliseconds::rep> timeout_;
  const std::vector<std::int64_t> members_;
  std::atomic<Code> failure_{Code::ok};
  mutable std::mutex mutex_;
  std::optional<Communicator> communicator_;
};

/// Groups with a job of their own that live in this process, the oldest first.
namespace worlds {
void add(const std::shared_ptr<Group>& world);
/// A group of these ranks of the default group, `self` among them, made by them alone within the oldest world that has
/// all of them; nullopt where there is none. Blocks until all of them are there.
std::optional<Communicator> group_within(std::span<const std::int64_t> members, std::int64_t self,
                                         const std::string& name);
}  // namespace worlds

}  // namespace tutti::torch_binding
