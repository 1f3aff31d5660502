// Owners of memory that calls were given, when the calls are over.
#pragma once

#include <memory>

namespace tutti {

/// Lets go on a thread of its own: freeing device memory may wait for all that the device has to do, and that may wait
/// for what the caller is about to do. Any thread; never blocks.
void let_go_elsewhere(std::shared_ptr<const void> owner) noexcept;

}  // namespace tutti
