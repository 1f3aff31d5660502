// Failures that all transports and backends report with the same text: mismatches, ended ranks, unknown algorithms.
#pragma once

#include <optional>
#include <span>
#include <string_view>

#include "tutti/provider/transport.hpp"

namespace tutti {

/// One side of a message: the world rank, the signature of the call, and the size in bytes.
struct End {
  int rank = -1;
  std::uint64_t call = 0;
  std::size_t bytes = 0;
};

/// The cause if the two sides of a message belong to different calls or differ in size. `reporter`: as in Cause.
Cause mismatch(const Tag& tag, const End& sender, const End& receiver, int reporter);

/// The cause if an operation needs `peer`, which has left the job normally.
Cause ended(int peer, int reporter);

/// Returns ok if `known` contains `algorithm`; otherwise a failure, `unsupported` if `known` is empty and else
/// `invalid`. `known` lists the backend's algorithms for `kind`, as Provider::algorithms does; if `kind` is nullopt,
/// those for all kinds together.
Status check_algorithm_name(std::string_view backend, std::string_view algorithm, std::optional<Kind> kind,
                            std::span<const std::string_view> known);

}  // namespace tutti
