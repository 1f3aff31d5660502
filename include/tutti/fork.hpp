// Fork guard: closes the library's descriptors in forked children.
#pragma once

#include <cstdint>

namespace tutti {

/// Closes `fd` in every child that this process forks from now on, so that a child does not keep the connections of a
/// dead parent alive. (exec is covered by CLOEXEC.)
///
/// Threads: any. The class Descriptor (transports/core/descriptor.hpp) calls this function itself.
void fork_guard_add(int fd);

/// Unregisters `fd`; call before closing it. Returns false if `fd` is not registered. In a forked child, do not close
/// `fd` then: it is already closed, and another file may have its number.
bool fork_guard_remove(int fd) noexcept;

/// The number of forks between this process and the first process that called this function. An object made while this
/// number was smaller belongs to the parent process; calls on it in the child must be refused.
std::uint32_t fork_generation() noexcept;

}  // namespace tutti
