// The provider module "cuda": the accelerator, on hosts with NVIDIA GPUs.
#include "tutti/provider/provider.hpp"
#include "transports/cuda/accelerator.hpp"
#include "transports/cuda/driver.hpp"
#include "tutti/memory.hpp"

namespace tutti {
namespace {

Accelerator& the_accelerator(const Settings&) {
  // never destroyed: streams and memory may be freed at any time during exit
  static auto& one = *new cuda::CudaAccelerator;
  return one;
}

Viability viable(const Settings&) {
  const std::string why = cuda::why_none();
  return {why.empty(), why.empty() ? why : "no CUDA device: " + why};
}

std::vector<std::string> details(const Settings& settings) {
  std::vector<std::string> lines;
  const auto& devices = the_accelerator(settings).devices();
  for (std::size_t i = 0; i < devices.size(); ++i) {
    const DeviceInfo& one = devices[i];
    lines.push_back("device " + std::to_string(i) + ": " + one.name + ", " + size_text(one.bytes) + ", compute " +
                    one.compute + ", " + std::to_string(one.processors) + " multiprocessors, shared by " + one.sharing +
                    (one.shares_memory ? "" : ", no memory between processes"));
  }
  return lines;
}

}  // namespace

extern const Provider cuda_provider;
const Provider cuda_provider{.name = "cuda",
                             .meaning = "NVIDIA GPUs: memory, streams, folds",
                             .viable = viable,
                             .accelerator = the_accelerator,
                             .details = details};

}  // namespace tutti

extern "C" __attribute__((visibility("default"))) const tutti::Module* tutti_module() {
  static const tutti::Module module{tutti::module_abi.data(), &tutti::cuda_provider};
  return &module;
}
