// Validation of a call's arguments before anything is sent.
#pragma once

#include <string_view>

#include "tutti/accelerator.hpp"
#include "tutti/collective.hpp"
#include "tutti/provider/backend.hpp"
#include "tutti/settings.hpp"

namespace tutti {

/// Throws Error{invalid} with one clear line when the call is not valid on `group`. Also fills in fields that a rank
/// may leave out: the dtype of a missing buffer, so that in.dtype == out.dtype afterwards, and on ranks other than the
/// root the counts of gatherv and scatterv: the rank's own count, and zero for all others.
void check_arguments(Collective& call, const Group& group);

/// Throws Error{invalid} with one line unless 0 <= `peer` < `size` and `tag` >= 0. `call` is the name of the function
/// that the user called, such as send, recv or sendrecv. A peer of -1 is invalid here; in the fields `to` and `from`
/// of a Collective it means that nothing is sent or received.
void check_message(std::string_view call, int peer, int tag, int size);

/// The accelerator for a call on device memory; null for host memory. Throws Error{unsupported} if no accelerator can
/// be used, and Error{invalid} if the device's number does not exist.
Accelerator* gpu_of(const Collective& call, const Settings& settings);

}  // namespace tutti
