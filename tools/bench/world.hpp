// World: tutti's own collectives as an Implementation, and a board for ranks that this benchmark did not start.
#pragma once

#include <memory>

#include "collectives/tutti.hpp"
#include "tools/bench/measure.hpp"
#include "tools/bench/request.hpp"

namespace tutti::bench {

/// Throws Error{invalid} where --algorithm names none, or one that cannot do this on `ranks` ranks.
void check_algorithm(const Request& request, int ranks);

/// Starts the call that a case describes.
struct CallBuffers {
  ConstBuffer in;
  Buffer out;
};
Work start(Communicator& world, const Case& what, const CallBuffers& at, const CallOptions& options);

std::unique_ptr<Implementation> make_world(const Communicator& world, const Request& request);

/// Over the communicator itself: where the ranks may be on several hosts, whose clocks differ. An
/// iteration then lasts as long as the slowest rank found, entry to exit.
std::unique_ptr<Board> make_world_board(const Communicator& world);

}  // namespace tutti::bench
