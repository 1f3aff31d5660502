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

/// Creates the first of several backends that all ranks of a communicator can have. The negotiation blocks, so it
/// runs on a thread of its own; ranks may start it for several communicators in any order.
class DeviceBackends final : private Startable {
 public:
  struct Outcome {
    std::shared_ptr<Backend> backend;  ///< null: these ranks can have none of them
    Status failure;                    ///< why the negotiation did not complete
  };
  struct Talk {
    Communicator aside;  ///< of the same ranks, used for the negotiation only
    std::uint64_t id;    ///< id of its group
    std::vector<std::string> names;
  };
  DeviceBackends(std::shared_ptr<Context> context, const Group& group, Talk talk);
  ~DeviceBackends() override;

  /// Starts the negotiation; at most once. `told` is called once, with the token held.
  void begin(std::function<void(Outcome)> told);
  /// Blocks until the negotiation is over. Must not be called with the token held.
  void wait();
  /// Stops the negotiation because the communicator has failed. Any thread.
  void give_up() noexcept;

  /// Destroys the object once its thread has ended: in this call if the negotiation is over, else later. Any thread.
  static void leave(std::unique_ptr<DeviceBackends> one) noexcept;

 private:
  void talk() noexcept;
  bool start() override;  // called when the negotiation is over; token held

  const std::shared_ptr<Context> context_;
  const std::uint32_t generation_;  // of core/fork.hpp, to detect a forked child
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
