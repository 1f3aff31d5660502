// Converts tutti's errors to the exceptions of torch.distributed.
#include "bindings/torch/errors.hpp"

#include <c10/util/Exception.h>

#include <algorithm>

namespace tutti::torch_binding {
namespace {

constexpr c10::SourceLocation here{"tutti", "bindings/torch", 0};

}  // namespace

std::exception_ptr backend_error(const std::string& text) {
  return std::make_exception_ptr(c10::DistBackendError(here, text));
}

std::string timed_out(std::string_view call, std::chrono::milliseconds limit, std::string_view why) {
  return "tutti: Timed out waiting " + std::to_string(limit.count()) + "ms for " + std::string(call) + ": " +
         std::string(why);
}

std::exception_ptr translated(const Error& error, std::string_view call, std::chrono::milliseconds limit) {
  std::string why = error.what();
  switch (error.code()) {
    case Code::timeout:
      why.erase(std::min(why.rfind(". Raise "), why.size()));  // advice on a setting that the group's timeout overrides
      return backend_error(timed_out(call, limit, why + group_over));
    case Code::peer_lost: return backend_error("tutti: connection closed by peer: " + why);
    case Code::invalid:
    case Code::unsupported:
      return std::make_exception_ptr(c10::Error(here, "tutti: " + std::string(call) + ": " + why));
    default: return backend_error("tutti: " + std::string(call) + ": " + why);
  }
}

void refuse(std::string_view call, const std::string& why) {
  throw c10::Error(here, "tutti: " + std::string(call) + ": " + why);
}

}  // namespace tutti::torch_binding
