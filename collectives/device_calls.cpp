#include "collectives/device_calls.hpp"

#include <string>

#include "collectives/host_backend.hpp"
#include "transports/accelerators.hpp"

namespace tutti {

Accelerator* gpu_of(const Collective& call, const Settings& settings) {
  const Device device = device_of(call);
  if (device.kind == Device::Kind::cpu) return nullptr;
  Accelerator& gpu = accelerator(settings);
  if (const std::string why = gpu.why_not(); !why.empty())
    throw Error(Code::unsupported, "the buffer is on a device, but there is none: " + why);
  const auto count = static_cast<int>(gpu.devices().size());
  if (device.index < 0 || device.index >= count)
    throw Error(Code::invalid, "the buffer is said to be on device " + std::to_string(device.index) + ", but there " +
                                   (count == 1 ? "is 1 device" : "are " + std::to_string(count) + " devices") +
                                   ", counted from 0");
  return &gpu;
}

staged::Host staging_host(Context& context, const Group& group, std::shared_ptr<const Selector> selector) {
  return {[&context]() -> Accelerator& { return accelerator(context.settings()); },
          [&context, group, selector = std::move(selector)] {
            return std::make_unique<HostBackend>(context.wire(), group, context.settings(), selector);
          },
          [&context](std::size_t bytes) { return context.wire().allocate(bytes); },
          static_cast<std::size_t>(context.settings().stage_bytes)};
}

void end_where_broken(Context& context, const Group& group, const Error& error) {
  if (error.code() != Code::internal) return;
  Cause cause;
  cause.code = Code::internal;
  cause.culprit = cause.reporter = context.rank();
  cause.group = group.id;
  cause.say("rank " + std::to_string(cause.culprit) + ": " + error.what());
  context.fail(cause);
}

}  // namespace tutti
