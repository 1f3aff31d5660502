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

/// What each rank does.
struct Roles {
  std::vector<int> masters = {};               ///< ranks that keep the parameters, in shards
  std::vector<std::vector<int>> workers = {};  ///< by worker: its ranks, of which the first one talks to the masters
  std::vector<int> submasters = {};       ///< by group: the rank that keeps its parameters; masters has one rank then
  std::vector<tutti::Range> groups = {};  ///< by group: its workers
};

/// The first strategy.masters ranks keep the parameters and do nothing else. With strategy.masters=0 all ranks keep a
/// part and work too, or rank 0 keeps everything if rounds have a quorum. The other ranks are workers of
/// strategy.processes ranks each. With strategy.submasters, see grouped_roles() in engine/submasters.hpp. Throws
/// Error{invalid} if the ranks do not come out even.
Roles roles_of(const Config& config, int ranks);

/// The ranks from `first` on as workers of `processes` ranks each; they have to come out even.
std::vector<std::vector<int>> workers_from(int first, int ranks, int processes);

/// Returns true if the rank is a master or a sub-master.
bool keeps_parameters(const Roles& roles, int rank);
/// Returns the rank that reports the death of `master`, a master or sub-master, which several ranks notice.
int tells_of_death(const Roles& roles, int master);

/// The result of a run with masters, on one rank.
struct ServedResult {
  int worker = -1;                      ///< the worker's number; -1: this rank was only a master
  bool tells = false;                   ///< true on the rank that reports the run: rank 0 of the first worker alive
  TrainResult training = {};            ///< of a worker: its own losses; held-out samples were judged on the masters'
  std::vector<std::string> lines = {};  ///< of the first master: a line about each worker's exchanges
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
