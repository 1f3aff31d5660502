// Causes that all transports report with the same text: a refused message, a rank that has ended.
#pragma once

#include <optional>
#include <span>
#include <string_view>

#include "tutti/provider/transport.hpp"

namespace tutti {

/// One side of a message: its world rank, its call's signature and its size in bytes.
struct End {
  int rank = -1;
  std::uint64_t call = 0;
  std::size_t bytes = 0;
};

/// The two sides of a message belong to different calls or differ in size.
Cause mismatch(const Tag& tag, const End& sender, const End& receiver, int reporter);

/// An operation depends on `peer`, which has left the job normally.
Cause ended(int peer, int reporter);

/// Ok if `known` contains `algorithm`; else the refusal that every backend and every rule gives. `known`: the backend's
/// algorithms for `kind`, as in Provider::algorithms; nullopt: for all kinds together.
Status check_algorithm_name(std::string_view backend, std::string_view algorithm, std::optional<Kind> kind,
                            std::span<const std::string_view> known);

}  // namespace tutti
