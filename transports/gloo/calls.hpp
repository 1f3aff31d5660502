// The collectives that Gloo supports, and their blocking execution.
#pragma once

#include <span>
#include <string_view>

#include "transports/gloo/mesh.hpp"
#include "tutti/collective.hpp"
#include "tutti/status.hpp"

namespace tutti {

/// The algorithms for a kind, the default first; empty if Gloo does not support the kind.
std::span<const std::string_view> gloo_algorithms(Kind kind) noexcept;

/// Ok, or the reason why `algorithm` (empty: the default) cannot perform the call.
Status gloo_supports(const Collective& call, std::string_view algorithm);

/// Performs a supported call on more than one rank. Blocks. Throws MeshClosed, PeerBroken, or another exception if this
/// rank fails. After it has returned or thrown, nothing uses the buffers. Messages of two ranks match only if both
/// passed the same `salt`.
void gloo_play(const Collective& call, std::string_view algorithm, Mesh& mesh, std::uint64_t salt);

/// Performs the call in a group of one rank: copies the input to the output.
void gloo_play_alone(const Collective& call);

}  // namespace tutti
