// Selects the accelerator of this process.
#pragma once

#include "tutti/accelerator.hpp"
#include "tutti/settings.hpp"

namespace tutti {

/// The accelerator of the provider that the setting `accelerator` names, opened by the first call; if that fails, one
/// without devices that gives the reason. One per process, never destroyed. Any thread.
Accelerator& accelerator(const Settings& settings);
/// As above, with the settings of the environment if no call was made before.
Accelerator& accelerator();

/// The device index for the rank with number `local_rank` on its host: round-robin if there are fewer devices than
/// ranks.
int device_of_rank(const Accelerator& one, int local_rank);

/// Makes accelerator() return `one`, for a program that brings its own runtime. Call before anything uses another one.
void use_accelerator(Accelerator& one) noexcept;

}  // namespace tutti
