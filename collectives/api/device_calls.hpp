// Selection of a backend for calls on device memory.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "collectives/api/device_backends.hpp"
#include "collectives/route/choices.hpp"
#include "collectives/runtime/context.hpp"
#include "collectives/runtime/operation.hpp"
#include "transports/core/layout.hpp"
#include "transports/staged/exchanges.hpp"
#include "transports/staged/staged_backend.hpp"
#include "tutti/communicator.hpp"

namespace tutti {

/// Fails the communicator on all ranks if `error` has Code::internal: the device has failed permanently, for example by
/// an illegal address. Does nothing for other errors.
void end_where_broken(Context& context, const Group& group, const Error& error);

/// Chooses the backend of a communicator's calls on device memory. All ranks make the first such call; it starts a
/// negotiation about which backend of the setting `device_backends` all ranks can create. Until the negotiation is
/// over, calls wait in launch order. A call that no such backend supports is staged through host memory. Nothing is
/// created before the first call on device memory.
class DeviceCalls final : public Router {
 public:
  DeviceCalls(std::shared_ptr<Context> context, std::shared_ptr<GroupState> group, Choices& choices);
  /// The staging backend, used where no other backend supports a call.
  const std::shared_ptr<staged::StagedBackend>& staging() const noexcept { return staged_; }
  /// Releases everything; no call may be made afterwards.
  void end() noexcept;

  /// Called before every device call. `self` points to this object and shares ownership of the communicator.
  /// aside(id) returns another communicator of the same ranks; `aside_id`, its id, is equal on all ranks.
  template <class Aside>
  void prepare(const std::shared_ptr<DeviceCalls>& self, std::uint64_t aside_id, const Aside& aside) {
    std::call_once(prepared_, [&] {
      if (std::vector<std::string> names = worth_trying(); !names.empty())
        find_out(self, {aside(aside_id), aside_id, std::move(names)});
      else
        known_.store(true);
    });
  }
  /// The route (backend and algorithm) of a call before its launch. Null while the negotiation runs: route() returns it
  /// afterwards. Throws what Choices::choose throws.
  const Route* choose(const Collective& call, Signature summary, const std::string& wanted);
  /// Blocks until the negotiation, if one was started, is over. Must not be called by the holder of the progress token.
  void wait();

  /// The engine for sends and receives of device memory; the first call creates it.
  staged::Exchanges& exchanges(Accelerator& gpu);

  // Router
  const Route* route(const Collective& call, const std::string& wanted) override;
  void give_up() noexcept override {
    if (backends_ && !known_) backends_->give_up();
  }

 private:
  std::vector<std::string> worth_trying() const;
  void find_out(const std::shared_ptr<DeviceCalls>& self, DeviceBackends::Talk talk);
  void found(DeviceBackends::Outcome outcome);
  const Route& driven(const Route& route);

  const std::shared_ptr<Context> context_;
  const std::shared_ptr<GroupState> group_;
  Choices& choices_;
  std::once_flag prepared_, exchanges_made_;
  std::unique_ptr<DeviceBackends> backends_;
  std::atomic<bool> known_{false};                 // true: the negotiation is over
  Status failure_;                                 // of the negotiation; written before known_
  std::shared_ptr<staged::StagedBackend> staged_;  // also in choices_; the context drives it from its first call on
  std::atomic<bool> staged_driven_{false};
  std::shared_ptr<staged::Exchanges> exchanges_;
};

}  // namespace tutti
