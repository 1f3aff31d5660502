// Tries in a child process whether a library can read a file without a crash.
#pragma once

#include <filesystem>
#include <functional>
#include <string>

namespace tutti::engine {

/// Runs `reading`, which reads `file` by means of `library`, in a forked child, and waits for the child. Ignores
/// exceptions of `reading`. Throws Error{invalid} with the file's name if the child crashed, used 3 s of processor
/// time, or ran for two minutes, because reading would do the same in this process. Does nothing if fork() fails. Only
/// the calling thread exists in the child, so `reading` must not take a lock that another thread may hold.
void try_in_child(const std::filesystem::path& file, const std::string& library, const std::function<void()>& reading);

}  // namespace tutti::engine
