// A door is where bytes from outside come into tutti. A harness in doors/ hands it bytes as a stranger may have written
// them; driver.cpp makes the bytes, or libFuzzer does.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <span>
#include <string>
#include <string_view>

namespace tutti::fuzz {

using Input = std::span<const std::uint8_t>;

inline std::string_view text_of(Input input) { return {reinterpret_cast<const char*>(input.data()), input.size()}; }

/// Each harness defines it: hands the input to its door. Returns true if the door took it, and false if the door
/// refused it with an Error; see refuses(). Whatever else happens is a fault of the door.
bool take(Input input);

/// Runs `open`. Returns true if it throws an Error, whose text has to be one printable line that contains `name`, for
/// example the file; a line that is none ends the process.
bool refuses(const std::function<void()>& open, std::string_view name = {});

/// Ends the process with a line that says what went wrong.
[[noreturn]] void fail(const std::string& what);
inline void expect(bool holds, const std::string& what) {
  if (!holds) fail(what);
}

/// A folder of this process that is removed at exit.
const std::filesystem::path& folder();
/// Makes `input` the content of a file.
void write(const std::filesystem::path& file, Input input);
/// A file in folder() with the input. The name ends in `ending`.
std::filesystem::path file_with(Input input, const std::string& ending);

}  // namespace tutti::fuzz
