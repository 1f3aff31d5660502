// Letting go elsewhere: of what takes its time to go, for want of a device that gets on.
#pragma once

#include <memory>
#include <utility>

#include "transports/core/clock.hpp"

namespace tutti {

/// Lets go on a thread of its own: freeing memory of a device, and closing that of another process, may wait for all
/// that the device has to do, and that may wait for what the caller is about to do: a stream at a gate waits for
/// whoever makes progress. So what is freed where calls make progress, or while a backend ends, goes this way. In the
/// order of these calls. Any thread; never blocks.
void let_go_elsewhere(std::shared_ptr<const void> owner) noexcept;

/// The same for anything that can be moved.
template <class T>
void let_go_elsewhere(T value) {
  let_go_elsewhere(std::shared_ptr<const void>(std::make_shared<T>(std::move(value))));
}

/// Waits until what was let go so far has gone, or until the deadline. At once on that thread itself.
void wait_for_what_goes(Deadline until) noexcept;

}  // namespace tutti
