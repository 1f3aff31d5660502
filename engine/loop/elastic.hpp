// Elastic training: a run that goes on when ranks die and when processes join.
#pragma once

#include <functional>

#include "engine/trainer.hpp"

namespace tutti::engine {

/// Thrown by Trainer::run() on all ranks after a step in which some rank has wished Wish::regroup. Trainer::committed()
/// then has the state after that step.
struct Regrouping {};

/// Sets elastic.min and elastic.max, where the configuration leaves them out, from TUTTI_ELASTIC=MIN:MAX, which
/// `tutti run --elastic` sets. Throws Error{invalid} if MIN:MAX is no such pair.
void take_limits(Config& config, const char* elastic);

/// Throws Error{invalid} for a configuration with which training cannot go on without a rank.
void check_elastic(const Config& config);

/// As Trainer::run() of the task, and goes on when ranks are lost: the ranks that are left shrink the communicator,
/// take the newest state that one of them has, and do the step that failed again, with its samples dealt to them. With
/// elastic.batch=keep, samples per step, learning rate and mean are those of the undisturbed run; with
/// deterministic=membership all bits are. While fewer than elastic.min ranks are left, they wait for processes that
/// join. Processes that wait at the job's store join between two steps, up to elastic.max ranks, and get the state from
/// all ranks that have it, each of which sends a part (Communicator::grow()).
///
/// `task` is called for each group of ranks; its network must be the same object each time. `world` is replaced by the
/// communicator of the last group. A process that joins passes the communicator that from_env() returned, whose epoch()
/// is above 0. `config`, of which a process that joins may have another folder of the run and another batch.global,
/// gets those of the run. Collective; blocks. Throws Error{invalid} for a configuration whose strategy cannot go on
/// without a rank; the errors of Trainer::run(), if no rank was lost; and Error{invalid} if no rank that has a state is
/// left.
TrainResult train_elastically(Config& config, Communicator& world, const std::function<Task()>& task, Hooks hooks = {});

}  // namespace tutti::engine
