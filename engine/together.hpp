// together: a step that may fail on one rank fails on all.
#pragma once

#include <functional>

#include "collectives/api/communicator.hpp"

namespace tutti::engine {

/// Runs `step` on every rank. Where it throws tutti::Error{invalid} or {resource} on any, all ranks throw that of the
/// first of them, whose number is the error's culprit(). `step` makes no collective calls. Collective; blocks.
void together(Communicator& world, const std::function<void()>& step);

}  // namespace tutti::engine
