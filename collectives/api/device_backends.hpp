// DeviceBackends: the backend that does a communicator's calls on device memory, while it is being made.
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

#include "collectives/api/communicator.hpp"
#include "collectives/runtime/context.hpp"

namespace tutti {

/// Makes the first of some backends that these ranks can have. They talk about it, which blocks; so a thread of its own
/// does that, and ranks may come to it with several communicators in any order.
class DeviceBackends final : private Startable {
 public:
  struct Outcome {
    std::shared_ptr<Backend> backend;  ///< null: these ranks have none of them
    Status failure;                    ///< or why they did not come to an end
  };
  struct Talk {
    Communicator aside;  ///< of the same ranks, for this alone
    std::uint64_t id;    ///< its group's
    std::vector<std::string> names;
  };
  DeviceBackends(std::shared_ptr<Context> context, const Group& group, Talk talk);
  ~DeviceBackends() override;

  /// Once. `told` is called once, with the token held.
  void begin(std::function<void(Outcome)> told);
  /// Blocks until it has been. Not with the token held.
  void wait();
  /// Ends the talk, as the communicator has failed. Any thread.
  void give_up() noexcept;

  /// Lets it go when its thread has ended: here, where that is about to. Any thread.
  static void leave(std::unique_ptr<DeviceBackends> one) noexcept;

 private:
  void talk() noexcept;
  bool start() override;  // under the token, when the talk is over

  const std::shared_ptr<Context> context_;
  const std::uint32_t generation_;  // of forks
  const Group group_;
  const std::uint64_t id_;
  const std::vector<std::string> names_;
  std::optional<Communicator> aside_;
  std::function<void(Outcome)> told_;
  Outcome outcome_;
  std::mutex mutex_;
  std::condition_variable changed_;
  bool is_over_ = false;  // mutex_
  std::thread thread_;
};

}  // namespace tutti
