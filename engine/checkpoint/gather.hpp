// gather(): collects the arrays of all ranks at rank 0.
#pragma once

#include <vector>

#include "engine/data/sample.hpp"
#include "tutti/communicator.hpp"

namespace tutti::engine {

/// At rank 0 returns the arrays of every rank, by rank, as copies; on other ranks an empty list. Names, types and
/// shapes may differ between ranks. Collective; blocks.
std::vector<Fields> gather(Communicator& world, const Fields& mine);

}  // namespace tutti::engine
