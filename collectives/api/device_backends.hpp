// DeviceBackends: asynchronous creation of the backend for a communicator's calls on device memory.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "collectives/runtime/context.hpp"
#include "tutti/communicator.hpp"

namespace tutti {

/// Creates a backend for a communicator: the first in a list of names that all ranks can create. The negotiation
/// blocks, so it runs on a thread of its own. Ranks may start the negotiations of several communicators in different
/// orders.
class DeviceBackends final : private Startable {
 public:
  struct Outcome {
    std::shared_ptr<Backend> backend;  ///< null: the ranks have no such backend in common
    Status failure;                    ///< ok, or why the negotiation did not complete
  };
  struct Talk {
    Communicator aside;  ///< a communicator of the same ranks, used for the negotiation only
    std::uint64_t id;    ///< id of the group of `aside`
    std::vector<std::string> names;
  };
  DeviceBackends(std::shared_ptr<Context> context, const Group& group, Talk talk);
  ~DeviceBackends() override;

  /// Starts the negotiation; call it once at most. `told` is called once, at the end, with the progress token held.
  void begin(std::function<void(Outcome)> told);
  /// Blocks until the negotiation is over. Must not be called with the token held.
  void wait();
  /// Stops the negotiation, by failing the communicator `aside` on all ranks. Any thread.
  void give_up() noexcept;

  /// Destroys the object after its thread has ended: within this call if the negotiation is over and the caller is not
  /// that thread, otherwise later. Stops a negotiation that is not over. Any thread.
  static void leave(std::unique_ptr<DeviceBackends> one) noexcept;

 private:
  void talk() noexcept;
  bool start() override;  // called at the end of the negotiation: calls told_; token held

  const std::shared_ptr<Context> context_;
  const std::uint32_t generation_;  // of tutti/fork.hpp, to detect a forked child
  const Group group_;
  const std::uint64_t id_;
  const std::vector<std::string> names_;
  std::optional<Communicator> aside_;
  std::function<void(Outcome)> told_;
  Outcome outcome_;
  std::mutex mutex_;
  std::condition_variable changed_;
  bool is_over_ = false;  // guarded by mutex_
  std::thread thread_;
};

}  // namespace tutti
