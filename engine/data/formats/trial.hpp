// A trial in a child process of what a file's library may not survive.
#pragma once

#include <filesystem>
#include <functional>
#include <string>

namespace tutti::engine {

/// Runs `reading`, which reads `file` by means of `library`, in a forked child, and returns when it has ended, whatever
/// it threw. Throws Error{invalid} with the file's name if it ended the child, or used the processor for 3 s, or took
/// two minutes: then it would do the same here. Where no child can be made, nothing is tried. The child has this thread
/// alone, so that no lock that `reading` takes may be held by another one.
void try_in_child(const std::filesystem::path& file, const std::string& library, const std::function<void()>& reading);

}  // namespace tutti::engine
