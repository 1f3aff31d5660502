// The provider nccl: a module with collectives, and no transport.
#include "tutti/provider/provider.hpp"
#include "transports/accelerators.hpp"
#include "transports/nccl/backend.hpp"

namespace tutti {
namespace {

Viability viable(const Settings& settings) {
  const nccl::Library& found = nccl::library(settings);
  if (!found.missing.empty()) return {false, found.missing};
  const Accelerator& devices = accelerator(settings);
  if (const std::string why = devices.why_not(); !why.empty()) return {false, "there is no GPU (" + why + ")"};
  return {};
}

std::unique_ptr<Backend> make_backend(const BackendMeeting& meeting) {
  return std::make_unique<nccl::NcclBackend>(meeting);
}

std::vector<std::string> details(const Settings& settings) {
  const nccl::Library& found = nccl::library(settings);
  if (!found.missing.empty()) return {};
  return {"NCCL " + nccl::version_text(found.version) + " in " + found.file};
}

constexpr Provider nccl_provider{.name = "nccl",
                                 .meaning = "collectives of NCCL among GPUs, one rank on each",
                                 .viable = viable,
                                 .algorithms = nccl::algorithms,
                                 .make_backend = make_backend,
                                 .collects = Device::Kind::cuda,
                                 .details = details};
constexpr Module module{.provider = &nccl_provider};

}  // namespace
}  // namespace tutti

extern "C" const tutti::Module* tutti_module() { return &tutti::module; }
