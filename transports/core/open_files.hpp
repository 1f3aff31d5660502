// How many files this process may have open: sockets, pipes and events count.
#pragma once

#include <cstddef>
#include <string>

namespace tutti {

/// Raises this process's soft limit to its hard limit, which needs no privileges; NCCL does the same. Any thread, any
/// number of times.
void raise_limit_of_open_files() noexcept;

/// How many files this process may have open at the same time.
std::size_t limit_of_open_files() noexcept;

/// Explains, in sentences, a call that failed with errno `error` because there was no descriptor left: how many files
/// this process may have open, how many it needs to open `more` files, and what to do. Empty for any other errno.
std::string about_open_files(int error, std::size_t more);

/// The reason why this process cannot have `needed` files open, and what to do, as a clause; empty if it can.
std::string too_few_open_files(std::size_t needed);

}  // namespace tutti
