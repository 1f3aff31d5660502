// What calls on device memory need beside those on host memory.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "collectives/api/communicator.hpp"
#include "collectives/api/device_backends.hpp"
#include "collectives/route/choices.hpp"
#include "collectives/runtime/collective_operation.hpp"
#include "collectives/runtime/context.hpp"
#include "transports/staged/exchanges.hpp"
#include "transports/staged/staged_backend.hpp"

namespace tutti {

/// Where a call's buffers are.
inline const Device& device_of(const Collective& call) noexcept {
  return call.out.device.kind != Device::Kind::cpu ? call.out.device : call.in.device;
}

/// Of a call on device memory; else null. Throws Error{unsupported, invalid} where there is no such device.
Accelerator* gpu_of(const Collective& call, const Settings& settings);

/// Ends the communicator on all ranks where `error` says that a device does nothing more, as after an illegal address.
void end_where_broken(Context& context, const Group& group, const Error& error);

/// Who does the calls of one communicator on device memory. Nothing of it costs anything before the first of them:
/// with that, which all ranks make, they find out which of the setting `device_backends` they can have. Calls wait
/// meanwhile, in their order; what none of those does is staged.
class DeviceCalls final : public Router {
 public:
  DeviceCalls(std::shared_ptr<Context> context, std::shared_ptr<GroupState> group, Choices& choices);
  /// For the choices, after all others.
  const std::shared_ptr<staged::StagedBackend>& staging() const noexcept { return staged_; }
  /// No call is made any more.
  void end() noexcept;

  /// Before every call. `self` is this, and keeps the communicator; `aside` makes another one of the same ranks, which
  /// is called `aside_id` on all of them.
  template <class Aside>
  void prepare(const std::shared_ptr<DeviceCalls>& self, std::uint64_t aside_id, const Aside& aside) {
    std::call_once(prepared_, [&] {
      if (std::vector<std::string> names = worth_trying(); !names.empty())
        find_out(self, {aside(aside_id), aside_id, std::move(names)});
      else
        known_.store(true);
    });
  }
  /// Who does a call that is about to be launched; null: route() will know. Throws as Choices::choose.
  const Route* choose(const Collective& call, Signature summary, const std::string& wanted);
  /// Blocks until it is known, if any call has asked. Not with the token held.
  void wait();

  /// For sends and receives; the first one makes them.
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
  std::atomic<bool> known_{false};                 // what there is to choose from
  Status failure_;                                 // or why not; written before
  std::shared_ptr<staged::StagedBackend> staged_;  // in choices_, and from its first call on in the context
  std::atomic<bool> staged_driven_{false};
  std::shared_ptr<staged::Exchanges> exchanges_;
};

}  // namespace tutti
