// Converts tutti's errors to the exceptions of torch.distributed.
#pragma once

#include <chrono>
#include <exception>
#include <string>
#include <string_view>

#include "tutti/status.hpp"

namespace tutti::torch_binding {

/// The exception for a failure of `call`: DistBackendError; or RuntimeError if the arguments were wrong or the call is
/// not supported. `limit` is the call's timeout, for the text of timeouts.
std::exception_ptr translated(const Error& error, std::string_view call, std::chrono::milliseconds limit);

/// A DistBackendError with this text.
std::exception_ptr backend_error(const std::string& text);

/// The second part of the error text for a timeout that ended the group.
inline constexpr const char* group_over =
    ". The group has ended with it: make another one, with a larger timeout (init_process_group(timeout=...), or "
    "new_group(timeout=...)) if the work really takes that long";

/// The text for a timeout.
std::string timed_out(std::string_view call, std::chrono::milliseconds limit, std::string_view why);

/// Throws RuntimeError with this text.
[[noreturn]] void refuse(std::string_view call, const std::string& why);

}  // namespace tutti::torch_binding
