// What calls on device memory need beside those on host memory.
#pragma once

#include <memory>

#include "collectives/context.hpp"
#include "collectives/selector.hpp"
#include "transports/staged/staged_backend.hpp"

namespace tutti {

/// Where a call's buffers are.
inline const Device& device_of(const Collective& call) noexcept {
  return call.out.device.kind != Device::Kind::cpu ? call.out.device : call.in.device;
}

/// Of a call on device memory; else null. Throws Error{unsupported, invalid} where there is no such device.
Accelerator* gpu_of(const Collective& call, const Settings& settings);

/// What device memory is staged through. The context outlives it.
staged::Host staging_host(Context& context, const Group& group, std::shared_ptr<const Selector> selector);

/// Ends the communicator on all ranks where `error` says that a device does nothing more, as after an illegal address.
void end_where_broken(Context& context, const Group& group, const Error& error);

}  // namespace tutti
