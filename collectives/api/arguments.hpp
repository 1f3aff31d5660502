// Checking a call's arguments before anything is sent.
#pragma once

#include <string_view>

#include "transports/backend.hpp"
#include "transports/core/collective.hpp"

namespace tutti {

/// Throws Error{invalid} with one clear line when the call makes no sense on `group`, and fills in what only the root
/// has: the dtype of a buffer (a scatter's `in`), so that afterwards in.dtype == out.dtype, and the counts of gatherv
/// and scatterv, which away from the root are zeros but for its own.
void check_arguments(Collective& call, const Group& group);

/// Throws Error{invalid} with one line unless `peer` is one of `size` ranks and `tag` is not negative. `call` is what
/// the user calls: send, recv or sendrecv. In these no half can be left out, as -1 does in a Collective given by value.
void check_message(std::string_view call, int peer, int tag, int size);

}  // namespace tutti
