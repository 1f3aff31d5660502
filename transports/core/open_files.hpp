// How many files this process may have open: sockets, pipes and events count.
#pragma once

#include <cstddef>
#include <string>

namespace tutti {

/// Raises this process's soft limit to its hard one, which needs no rights; NCCL does the same. Any thread, any number
/// of times.
void raise_limit_of_open_files() noexcept;

/// What to say where an open has failed by errno `error` for want of descriptors, in sentences: how many this process
/// may open, how many it needs for `needed` besides those of the program, and what to do. Empty for another error.
std::string about_open_files(int error, std::size_t needed);

}  // namespace tutti
