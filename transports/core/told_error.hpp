// An error as a value of the store, by which one rank tells it to others.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "tutti/status.hpp"

namespace tutti {

/// "error CODE CULPRIT text".
std::string told_error(const Error& error);

/// The error that a value tells of; nullopt if it tells of none. An unknown code becomes Code::protocol.
std::optional<Error> error_told_in(std::string_view value);

}  // namespace tutti
