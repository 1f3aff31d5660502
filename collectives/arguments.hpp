// Checking a call's arguments before anything is sent.
#pragma once

#include "transports/backend.hpp"
#include "transports/core/collective.hpp"

namespace tutti {

/// Throws Error{invalid} with one clear line when the call makes no sense on `group`, and fills in the
/// dtype of a buffer that this rank does not have (a scatter's `in` away from the root), so that
/// afterwards in.dtype == out.dtype.
void check_arguments(Collective& call, const Group& group);

}  // namespace tutti
