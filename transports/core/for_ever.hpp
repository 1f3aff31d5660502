// Objects that are never destroyed, because a device or another process may still use them.
#pragma once

#include <utility>

namespace tutti {

/// Keeps `address` reachable, so that a leak checker does not report it. Any thread.
void remember_for_ever(const void* address);

/// Moves `value` into storage that lasts until the process ends; its destructor never runs. Any thread.
template <class T>
void keep_for_ever(T value) {
  remember_for_ever(new T(std::move(value)));
}

}  // namespace tutti
