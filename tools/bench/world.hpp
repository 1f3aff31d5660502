// World: tutti's collectives as an Implementation, and a board for ranks that another launcher started.
#pragma once

#include <memory>

#include "tools/bench/measure.hpp"
#include "tools/bench/request.hpp"
#include "tutti.hpp"

namespace tutti::bench {

/// Throws Error{invalid} if --algorithm is unknown, or cannot perform the collective on `ranks` ranks.
void check_algorithm(const Request& request, int ranks);

struct CallBuffers {
  ConstBuffer in;
  Buffer out;
};
/// Starts the call that a case describes.
Work start(Communicator& world, const Case& what, const CallBuffers& at, const CallOptions& options);

std::unique_ptr<Implementation> make_world(const Communicator& world, const Request& request);

/// Makes a board that uses the communicator, for ranks that may be on several hosts with different clocks. The duration
/// of an iteration is the longest time that a rank measures between its own entry and exit.
std::unique_ptr<Board> make_world_board(const Communicator& world);

}  // namespace tutti::bench
