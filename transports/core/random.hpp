// Random bytes from the kernel, for secrets and names.
#pragma once

#include <cstddef>

namespace tutti {

/// Fills memory with random bytes, from /dev/urandom where getrandom is refused (seccomp) or missing. Any thread.
/// Throws Error{resource} if the kernel provides none.
void fill_random(void* into, std::size_t bytes);

}  // namespace tutti
