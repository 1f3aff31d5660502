// How many files this process may have open: sockets, pipes and events count.
#pragma once

#include <cstddef>
#include <string>

namespace tutti {

/// Raises this process's soft limit to its hard one, which needs no rights; NCCL does the same. Any thread, any number
/// of times.
void raise_limit_of_open_files() noexcept;

/// How many files this process may have open at the same time.
std::size_t limit_of_open_files() noexcept;

/// What to say where an open has failed by errno `error` for want of descriptors, in sentences: how many this process
/// may have open, how many it needs where `more` are still to be opened, and what to do. Empty for another error.
std::string about_open_files(int error, std::size_t more);

/// Why this process cannot have `needed` files open, and what to do, as a clause; empty if it can.
std::string too_few_open_files(std::size_t needed);

}  // namespace tutti
