// Masters: training where some ranks keep the parameters, and workers push to and pull from them at their own speed.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "engine/config.hpp"
#include "engine/trainer.hpp"
#include "tutti/buffer.hpp"
#include "tutti/communicator.hpp"

namespace tutti::engine {

/// Whether config.strategy has servers (strategy.how=server).
bool has_masters(const Config& config);

/// What each rank does.
struct Roles {
  std::vector<int> masters = {};               ///< ranks that keep the parameters, in shards
  std::vector<std::vector<int>> workers = {};  ///< by worker: its ranks; the first one communicates with the masters
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
  std::int64_t batch = 0;               ///< on a worker: samples of one of its steps
  TrainResult training = {};            ///< on a worker: its own losses, and validation of the masters' parameters
  std::vector<std::string> lines = {};  ///< on the first master: one line per worker with statistics of its exchanges
  std::string kept =
      {};  ///< the file of the final parameters, if the reporting rank wrote it and not the first worker's checkpoint
};

/// Trains; collective over `world`. Sample i belongs to worker i modulo their number, and each worker takes its part of
/// the batch. `world` is not used after training has begun, so the death of a worker stops only its own ranks, if the
/// launcher lets the job go on. The first worker writes checkpoints and reports. If it has died, the next one writes
/// the masters' final parameters to model.safetensors in the run's folder, and reports. With sub-masters there are no
/// checkpoints, and that file has the top master's parameters after the last exchange of all groups. Blocks: a master
/// until all workers have left or died. Throws as Trainer does.
ServedResult train_by_masters(const Config& config, Communicator world, Network network, const DataSplit& data,
                              const Hooks& hooks = {});

/// Joins the run in the folder config.run, which is in progress with strategy.joins and has this configuration, as one
/// more worker, and trains until all steps of the run are done. `alone` has this process as its only rank. The worker
/// begins with the masters' parameters, takes part in their next round, and does steps that others have not claimed. It
/// has to see the folder and reach the masters; any host will do. Blocks. Throws Error{invalid} if no run can be joined
/// there, Error{peer_lost} if the run has ended, and as Trainer does.
ServedResult train_joining(const Config& config, Communicator alone, Network network, const DataSplit& data);

}  // namespace tutti::engine
