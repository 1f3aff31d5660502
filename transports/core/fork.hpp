// What a forked child must not inherit: the library's descriptors are closed in it.
#pragma once

#include <cstdint>

namespace tutti {

/// Closes `fd` in every child that this process forks from now on, so that a child does not keep
/// the connections of a dead parent alive. (exec needs none of this: descriptors are CLOEXEC.)
///
/// Threads: any. Descriptor (core/descriptor.hpp) does this by itself.
void fork_guard_add(int fd);

/// Ends that, before `fd` is closed. False where `fd` is not guarded: in a forked child it was closed
/// already, and the number may belong to somebody else.
bool fork_guard_remove(int fd) noexcept;

/// How many forks lie between this process and the one that first asked; an object made under another
/// generation belongs to the parent, and a call on it in the child must be refused.
std::uint32_t fork_generation() noexcept;

}  // namespace tutti
