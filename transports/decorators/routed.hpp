// routed: combines several transports, each of which reaches some of the ranks.
#pragma once

#include <memory>
#include <vector>

#include "tutti/provider/transport.hpp"

namespace tutti {

/// Messages to rank r use transports[route[r]]; `route` has `size` entries, including that of `rank`. Causes of
/// failures, cancellation and adopted memory go to all transports; arrived() with any_rank queries them in turn. Throws
/// Error{invalid} if a route names a missing transport, Error{resource} if no descriptor is available.
std::unique_ptr<Transport> make_routed(int rank, int size, std::vector<std::unique_ptr<Transport>> transports,
                                       std::vector<int> route);

}  // namespace tutti
