// The provider gloo: a module with collectives, and no transport.
#include "tutti/provider/provider.hpp"

#include <dlfcn.h>
#include <gloo/barrier.h>

#include "transports/gloo/backend.hpp"
#include "transports/gloo/calls.hpp"

namespace tutti {
namespace {

// Not viable if LibTorch has brought a Gloo of its own, which would be used instead of the one compiled against.
Viability viable(const Settings&) {
  Dl_info info{};
  if (dladdr(reinterpret_cast<const void*>(&gloo::barrier), &info) == 0 || info.dli_fname == nullptr) return {};
  const std::string_view file = info.dli_fname;
  if (file.find("libgloo") != file.npos) return {};
  return {false, "this process has another Gloo already, in " + std::string(file)};
}

std::unique_ptr<Backend> make_backend(const BackendMeeting& meeting) { return std::make_unique<GlooBackend>(meeting); }

constexpr Provider gloo_provider{.name = "gloo",
                                 .meaning = "collectives of Gloo over its own tcp connections",
                                 .viable = viable,
                                 .algorithms = gloo_algorithms,
                                 .make_backend = make_backend};
constexpr Module module{.provider = &gloo_provider};

}  // namespace
}  // namespace tutti

extern "C" const tutti::Module* tutti_module() { return &tutti::module; }
