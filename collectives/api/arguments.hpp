// Validation of a call's arguments before anything is sent.
#pragma once

#include <string_view>

#include "tutti/accelerator.hpp"
#include "tutti/collective.hpp"
#include "tutti/provider/backend.hpp"
#include "tutti/settings.hpp"

namespace tutti {

/// Throws Error{invalid} with one clear line when the call is not valid on `group`. Also fills in the fields that
/// only the root gives, so that afterwards in.dtype == out.dtype on every rank: the dtype of a missing buffer (`in`
/// of a scatter), and the counts of gatherv and scatterv, which on the other ranks are zero except their own.
void check_arguments(Collective& call, const Group& group);

/// Throws Error{invalid} with one line unless 0 <= `peer` < `size` and `tag` >= 0. `call` is the function that the
/// user called: send, recv or sendrecv. Unlike in a Collective given by value, a peer of -1 (no such half) is
/// refused.
void check_message(std::string_view call, int peer, int tag, int size);

/// The accelerator for a call on device memory; null for host memory. Throws Error{unsupported, invalid} if there is
/// no such device.
Accelerator* gpu_of(const Collective& call, const Settings& settings);

}  // namespace tutti
