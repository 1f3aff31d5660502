// gather: arrays of all ranks at rank 0, which keeps them for the others.
#pragma once

#include <vector>

#include "collectives/api/communicator.hpp"
#include "engine/data/sample.hpp"

namespace tutti::engine {

/// At rank 0 every rank's arrays, by rank, with copies of the other ranks'; nothing elsewhere. Names, types and shapes
/// may differ by rank. Collective; blocks.
std::vector<Fields> gather(Communicator& world, const Fields& mine);

}  // namespace tutti::engine
