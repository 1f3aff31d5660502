// Errors as values of the store, by which a rank reports an error to others.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "tutti/status.hpp"

namespace tutti {

/// The value for `error`: "error CODE CULPRIT text".
std::string told_error(const Error& error);

/// The error that a value contains; nullopt if it contains none. An unknown code becomes Code::protocol.
std::optional<Error> error_told_in(std::string_view value);

}  // namespace tutti
