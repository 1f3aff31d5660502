// Masters: training where some ranks keep the parameters, and workers push to them and fetch from them at their own
// speed.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "collectives/api/communicator.hpp"
#include "collectives/plan/range.hpp"
#include "engine/config.hpp"
#include "engine/trainer.hpp"

namespace tutti::engine {

/// Whether config.strategy has servers (strategy.how=server).
bool has_masters(const Config& config);

/// Who does what, by rank.
struct Roles {
  std::vector<int> masters = {};               ///< keep the parameters, in shards
  std::vector<std::vector<int>> workers = {};  ///< the processes of each, of which the first one talks to the masters
  std::vector<int> submasters = {};            ///< keep each those of a group; then there is one master, the top
  std::vector<tutti::Range> groups = {};       ///< of each, which of the workers are in its group
};

/// The first strategy.masters ranks keep the parameters and do nothing else; without any, all ranks do, beside working,
/// or rank 0 where rounds have a quorum. The others are workers of strategy.processes ranks each. With
/// strategy.submasters as grouped_roles() has it (engine/submasters.hpp). Throws Error{invalid} where they cannot be
/// dealt out.
Roles roles_of(const Config& config, int ranks);

/// Whether this rank keeps parameters: a master or sub-master.
bool keeps_parameters(const Roles& roles, int rank);
/// The rank that is to say so where a master or sub-master has died, which several know.
int tells_of_death(const Roles& roles, int master);

/// What a rank has to tell in the end.
struct ServedResult {
  int worker = -1;            ///< from 0; -1: this rank was a master alone
  bool tells = false;         ///< of all ranks this one is to report: rank 0 of the first worker that has not died
  TrainResult training = {};  ///< of a worker: its losses are its own, what was held out was judged on the centre
  std::vector<std::string> lines = {};  ///< of the first master: what each worker said of its exchanges
  std::string kept =
      {};  ///< of the rank that tells in the place of the first worker, or of groups: where the network is
};

/// Trains, on all ranks; the data are dealt out to the workers once and for all, sample i to worker i modulo their
/// number, and each takes its part of the batch. `world` is not used any more once training has begun, so that a worker
/// that dies stops nobody but its own processes, where the launcher lets the others go on. The first worker keeps the
/// checkpoints and reports; where it has died, the next one keeps the masters' parameters in the end, in
/// model.safetensors of the run's folder, and tells of it. With sub-masters that file is all that is kept, and the
/// parameters are those of the top after the last exchange of all groups. Blocks: of a master, until all workers have
/// left or died. Throws as Trainer does.
ServedResult train_by_masters(const Config& config, Communicator world, Network network, const DataSplit& data,
                              const Hooks& hooks = {});

/// Trains as one more worker of a run that goes on in the folder config.run, which was started with strategy.joins and
/// whose configuration this is, until all its steps are done; `alone` has
/// this process as its only rank. The worker begins with the masters' parameters, takes
/// part in their next round, and does steps that others have not begun. It need not be on the host of another worker,
/// but must see the folder and reach the masters. Blocks. Throws Error{invalid} where nothing can be joined there,
/// Error{peer_lost} where the run has ended, and as Trainer does.
ServedResult train_joining(const Config& config, Communicator alone, Network network, const DataSplit& data);

}  // namespace tutti::engine
