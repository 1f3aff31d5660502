// A module for tests: the accelerator "fake", for programs that find theirs by the setting `accelerator`.
#include "tests/support/fake_accelerator.hpp"
#include "transports/modules.hpp"

namespace tutti {
namespace {

constexpr Provider provider{.name = "fake",
                            .meaning = "devices in host memory, for tests",
                            .viable = [](const Settings&) { return Viability{}; },
                            .accelerator = [](const Settings&) -> Accelerator& { return testing::fake_accelerator(); }};

}  // namespace
}  // namespace tutti

extern "C" __attribute__((visibility("default"))) const tutti::Module* tutti_module() {
  static constexpr tutti::Module module{tutti::module_abi.data(), &tutti::provider};
  return &module;
}
