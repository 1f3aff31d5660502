// The provider cudaipc: a module with collectives, and no transport. It uses devices through the accelerator only.
#include "tutti/provider/provider.hpp"
#include "transports/accelerators.hpp"
#include "transports/cudaipc/backend.hpp"

namespace tutti {
namespace {

Viability viable(const Settings& settings) {
  const Accelerator& devices = accelerator(settings);
  if (const std::string why = devices.why_not(); !why.empty()) return {false, "there is no GPU (" + why + ")"};
  for (const DeviceInfo& one : devices.devices())
    if (one.shares_memory) return {};
  return {false, "no GPU here shares memory between processes"};
}

std::unique_ptr<Backend> make_backend(const BackendMeeting& meeting) {
  return std::make_unique<cudaipc::IpcBackend>(meeting);
}

constexpr Provider cudaipc_provider{.name = "cudaipc",
                                    .meaning = "collectives of processes that read one another's GPU memory",
                                    .viable = viable,
                                    .algorithms = cudaipc::algorithms,
                                    .make_backend = make_backend,
                                    .collects = Device::Kind::cuda};
constexpr Module module{.provider = &cudaipc_provider};

}  // namespace
}  // namespace tutti

extern "C" const tutti::Module* tutti_module() { return &tutti::module; }
