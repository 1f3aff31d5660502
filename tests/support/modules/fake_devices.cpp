// A module for tests: the accelerator "fake", for programs that load their accelerator by the setting `accelerator`. It
// also has the kernels that tests/gpu needs, and serves the fake NCCL if the setting `nccl_library` names that.
//
//   FAKE_STUMBLE=1     tasks wait for a while before they begin
//   FAKE_MEMORY=BYTES  so much device memory for each process
#include <dlfcn.h>

#include <cstdlib>

#include "tests/support/fake_accelerator.hpp"
#include "tests/support/fake_nccl/fake_nccl.hpp"
#include "transports/nccl/settings.hpp"
#include "tutti/provider/provider.hpp"

namespace tutti {
namespace {

void serve_fake_nccl(const std::string& library) {
  void* const handle = library.empty() ? nullptr : dlopen(library.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (handle == nullptr) return;
  auto* const use = reinterpret_cast<decltype(&fake_nccl_use)>(dlsym(handle, "fake_nccl_use"));
  if (use == nullptr) return;
  static const fake_nccl::Runtime runtime = {
      [](void* stream, std::function<void()> work) {
        testing::fake_accelerator().run({stream, 0}, std::move(work));
      },
      testing::FakeAccelerator::current, [](const void* memory) { return testing::fake_accelerator().seen(memory); }};
  use(&runtime);
}

Accelerator& make(const Settings& settings) {
  testing::FakeAccelerator& fake = testing::fake_accelerator();
  const char* const stumbles = std::getenv("FAKE_STUMBLE");
  fake.stumble(stumbles != nullptr && std::string_view(stumbles) == "1");
  if (const char* const bytes = std::getenv("FAKE_MEMORY")) fake.allow(std::strtoull(bytes, nullptr, 10));
  serve_fake_nccl(settings.of(nccl_library));
  return fake;
}

constexpr Provider provider{.name = "fake",
                            .meaning = "devices in host memory, for tests",
                            .viable = [](const Settings&) { return Viability{}; },
                            .accelerator = make};

}  // namespace
}  // namespace tutti

extern "C" {

__attribute__((visibility("default"))) const tutti::Module* tutti_module() {
  static constexpr tutti::Module module{tutti::module_abi.data(), &tutti::provider};
  return &module;
}

__attribute__((visibility("default"))) int user_illegal_address(int device, void*) {
  tutti::testing::fake_accelerator().break_device(device, "an illegal memory access was encountered on the fake");
  return 0;
}

__attribute__((visibility("default"))) int user_multiply(int device, void* stream, const float* a, const float* b,
                                                         float* c, int n) {
  auto& fake = tutti::testing::fake_accelerator();
  const auto* const x = reinterpret_cast<const float*>(fake.seen(a));
  const auto* const y = reinterpret_cast<const float*>(fake.seen(b));
  auto* const z = reinterpret_cast<float*>(fake.seen(c));
  fake.run({stream, device}, [=, side = static_cast<std::size_t>(n)] {
    for (std::size_t i = 0; i < side; ++i)
      for (std::size_t j = 0; j < side; ++j) {
        float sum = 0;
        for (std::size_t k = 0; k < side; ++k) sum += x[i * side + k] * y[k * side + j];
        z[i * side + j] = sum;
      }
  });
  return 0;
}

}  // extern "C"
