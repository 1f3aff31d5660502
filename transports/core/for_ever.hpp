// For ever: what is never destroyed, because a device, or another process, may still use it.
#pragma once

#include <utility>

namespace tutti {

/// Remembers an address, so that a leak checker finds what lies there. Any thread.
void remember_for_ever(const void* address);

/// Moves `value` to where it stays until the process ends; its destructor never runs. Any thread.
template <class T>
void keep_for_ever(T value) {
  remember_for_ever(new T(std::move(value)));
}

}  // namespace tutti
