// Committed: the state of a run after a step that all ranks have done, from which others can go on.
#pragma once

#include <cstdint>
#include <map>
#include <string>

#include "engine/checkpoint/state.hpp"
#include "engine/data/sample.hpp"
#include "tutti/communicator.hpp"

namespace tutti::engine {

/// What a checkpoint keeps, in memory. Commits are numbered in the order in which a run makes them, so of two ranks the
/// one with the larger number has the newer state.
struct Committed {
  std::int64_t number = -1;                    ///< -1: there is no state
  RunState state = {};                         ///< with the lists, without a mark of the history
  std::string run = {};                        ///< the folder of the run
  std::int64_t batch = 0;                      ///< samples per step, of the ranks with which the run began
  int ranks = 0;                               ///< how many these were
  std::size_t undone = 0;                      ///< steps that this rank had done since, which are done again
  bool is_shared = true;                       ///< ranks with the same number have equal tensors
  std::map<std::string, Fields> tensors = {};  ///< by the names of a checkpoint's files
};

/// Gives the newest state of all ranks to those that have an older one or none, and returns the state that this rank
/// has then. Each rank with the newest state sends an equal part of it to each rank that lacks it. If the tensors are
/// not shared, a rank that lacks them gets all of one rank's, each next one those of the next rank. Collective; blocks.
/// Number -1 on all ranks if no rank has a state.
Committed share_newest(Communicator& world, Committed mine);

}  // namespace tutti::engine
