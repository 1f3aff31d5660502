// Frees device memory on a background thread, because freeing may block until the device is idle.
#pragma once

#include <memory>
#include <utility>

#include "tutti/clock.hpp"

namespace tutti {

/// Releases `owner` on a background thread, in the order of these calls. Freeing device memory, or closing a mapping of
/// another process's, may wait for all work on the device, and that work may wait for the caller (a stream at a gate
/// waits for the thread that makes progress). Use it in code that is called to make progress, and where a backend is
/// destroyed. Any thread; never blocks.
void deferred_release(std::shared_ptr<const void> owner) noexcept;

/// The same for any movable object.
template <class T>
void deferred_release(T value) {
  deferred_release(std::shared_ptr<const void>(std::make_shared<T>(std::move(value))));
}

/// Waits until everything passed so far has been released, or until the deadline. Returns at once on the background
/// thread.
void wait_for_deferred_releases(Deadline until) noexcept;

}  // namespace tutti
