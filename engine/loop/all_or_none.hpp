// all_or_none(): an error on one rank becomes an error on all ranks.
#pragma once

#include <functional>

#include "tutti/communicator.hpp"

namespace tutti::engine {

/// Calls `step` on every rank. If it throws tutti::Error{invalid, resource} on some ranks, all ranks throw the error of
/// the first of these, with its rank as culprit(). `step` must not call collectives. Collective; blocks. `options` are
/// for the collectives that are called after `step`; pass no_deadline if `step` may have to wait for a disk.
void all_or_none(Communicator& world, const std::function<void()>& step, const CallOptions& options = {});

}  // namespace tutti::engine
