// The collectives that Gloo has for us: which, and played to their end.
#pragma once

#include <span>
#include <string_view>

#include "transports/core/collective.hpp"
#include "transports/core/status.hpp"
#include "transports/gloo/mesh.hpp"

namespace tutti {

/// Of each kind, the default first; none where Gloo has not got it.
std::span<const std::string_view> gloo_algorithms(Kind kind) noexcept;

/// Ok, or why `algorithm` (empty: the default) cannot play the call.
Status gloo_supports(const Collective& call, std::string_view algorithm);

/// Plays a call that is supported. Blocks; throws MeshClosed, PeerBroken, or what went wrong here. When it returns,
/// in whatever way, nobody touches the buffers. More than one rank; messages meet those of equal `salt` only.
void gloo_play(const Collective& call, std::string_view algorithm, Mesh& mesh, std::uint64_t salt);

/// The call among one rank: what comes out is what goes in.
void gloo_play_alone(const Collective& call);

}  // namespace tutti
