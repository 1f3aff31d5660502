// What tutti throws, as the exceptions that torch.distributed throws.
#pragma once

#include <chrono>
#include <exception>
#include <string>
#include <string_view>

#include "transports/core/status.hpp"

namespace tutti::torch_binding {

/// What failed while `call` was running: DistBackendError; or RuntimeError where the arguments were wrong, or nothing
/// can do the call. `limit` is the call's time-out, of which the text tells where it has passed.
std::exception_ptr translated(const Error& error, std::string_view call, std::chrono::milliseconds limit);

/// A DistBackendError of this text.
std::exception_ptr backend_error(const std::string& text);

/// Of a limit that has passed.
std::string timed_out(std::string_view call, std::chrono::milliseconds limit, std::string_view why);

/// Throws RuntimeError of this text.
[[noreturn]] void refuse(std::string_view call, const std::string& why);

}  // namespace tutti::torch_binding
