// Which accelerator this process has.
#pragma once

#include "transports/core/accelerator.hpp"
#include "transports/core/settings.hpp"

namespace tutti {

/// The one of the provider that the setting `accelerator` names, opened by the first call, or one without devices that
/// says why. The same for the whole process and for ever. Any thread.
Accelerator& accelerator(const Settings& settings);
/// As the environment says, where nobody has asked yet.
Accelerator& accelerator();

/// The device of the rank that is number `local_rank` on its host: in turns, where there are fewer devices than ranks.
int device_of_rank(const Accelerator& one, int local_rank);

/// What accelerator() gives from here on, instead: of a program that brings its own. Before anything is made with
/// another one.
void use_accelerator(Accelerator& one) noexcept;

}  // namespace tutti
