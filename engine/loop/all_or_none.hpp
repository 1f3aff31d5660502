// all_or_none(): an error on one rank becomes an error on all ranks.
#pragma once

#include <functional>

#include "tutti/communicator.hpp"

namespace tutti::engine {

/// Calls `step` on every rank. If it throws tutti::Error{invalid, resource} on some ranks, all ranks throw the error of
/// the first of these, with its rank as culprit(). `step` must not call collectives. Collective; blocks. `options` are
/// those of its calls: a step that takes as long as a disk wants is no failure with no_deadline.
void all_or_none(Communicator& world, const std::function<void()>& step, const CallOptions& options = {});

}  // namespace tutti::engine
