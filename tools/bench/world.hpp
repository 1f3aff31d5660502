// World: tutti's collectives as an Implementation, and a board for ranks that this benchmark did not start.
#pragma once

#include <memory>

#include "tools/bench/measure.hpp"
#include "tools/bench/request.hpp"
#include "tutti.hpp"

namespace tutti::bench {

/// Throws Error{invalid} if --algorithm is unknown, or cannot do the collective on `ranks` ranks.
void check_algorithm(const Request& request, int ranks);

struct CallBuffers {
  ConstBuffer in;
  Buffer out;
};
/// Starts the call that a case describes.
Work start(Communicator& world, const Case& what, const CallBuffers& at, const CallOptions& options);

std::unique_ptr<Implementation> make_world(const Communicator& world, const Request& request);

/// A board over the communicator, for ranks that may be on several hosts, whose clocks differ. An iteration lasts as
/// long as the slowest rank's own time from entry to exit.
std::unique_ptr<Board> make_world_board(const Communicator& world);

}  // namespace tutti::bench
