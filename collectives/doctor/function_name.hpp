// Names of functions as people write them.
#pragma once

#include <string>
#include <string_view>

namespace tutti::doctor {

/// "net::Layer<...>::forward()" for a mangled name: without the result, the arguments and those of templates. A name
/// that is not mangled, or whose length could explode, stays as it is.
std::string readable_function(const std::string& symbol);

/// Returns true for what a program may have linked statically: functions of tutti, of the C++ library and fmt, and
/// those of the C library that wait or start the program.
bool is_library_function(std::string_view symbol) noexcept;

}  // namespace tutti::doctor
