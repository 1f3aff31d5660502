// Fragments: which parameters are synced together, and after which steps. Plain numbers, without LibTorch.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace tutti::engine {

/// Returns the block that a parameter belongs to: "layers.3" for "layers.3.fc.weight", "fc1" for "fc1.weight".
std::string_view block_of(std::string_view parameter);

/// Returns the fragment of each parameter. Blocks are numbered in the order of their first parameters; block i is in
/// fragment i modulo `fragments` (Streaming DiLoCo). Throws Error{invalid} if there are fewer blocks than fragments.
std::vector<std::size_t> fragments_of(std::span<const std::string> parameters, std::size_t fragments);

/// Throws Error{internal} unless each parameter is in a fragment and each fragment has a parameter.
void audit_fragments(std::span<const std::size_t> fragment_of, std::size_t fragments);

/// Returns true if fragment f of F is synced after `steps` steps. The first sync of f is after (f + 1) every / F steps.
/// Later syncs follow every `every` steps.
bool fragment_is_due(std::int64_t steps, std::int64_t fragment, std::int64_t fragments, std::int64_t every);

}  // namespace tutti::engine
