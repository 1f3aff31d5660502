// Selects the accelerator of this process.
#pragma once

#include "tutti/accelerator.hpp"
#include "tutti/settings.hpp"

namespace tutti {

/// Returns the accelerator of this process. The first call opens it, from the provider that the setting `accelerator`
/// names. If there is no such accelerator, the result has no devices, and its why_not() says why. Later calls ignore
/// `settings`. The result is never destroyed. Any thread.
Accelerator& accelerator(const Settings& settings);
/// The same. If this is the first call, it reads the settings from the environment.
Accelerator& accelerator();

/// The device index for the rank with number `local_rank` on its host: `local_rank` modulo the number of devices, or 0
/// if there is no device.
int device_of_rank(const Accelerator& one, int local_rank);

/// Makes accelerator() return `one`, for a program that brings its own accelerator. Call it before the first
/// accelerator(). `one` must live until the process ends.
void use_accelerator(Accelerator& one) noexcept;

}  // namespace tutti
