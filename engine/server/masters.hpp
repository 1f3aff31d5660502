// Masters: training in which some ranks keep the parameters; workers push and pull them at their own speed.
#pragma once

#include <string>
#include <vector>

#include "engine/config.hpp"
#include "engine/server/roles.hpp"
#include "engine/trainer.hpp"
#include "tutti/communicator.hpp"

namespace tutti::engine {

/// The result of a run with masters, on one rank.
struct MastersResult {
  int worker = -1;                      ///< the worker's number; -1: this rank was only a master
  bool tells = false;                   ///< true on the rank that reports the run: rank 0 of the first worker alive
  std::int64_t batch = 0;               ///< on a worker: samples of one of its steps
  TrainResult training = {};            ///< on a worker: its own losses; validation of the masters' parameters
  std::vector<std::string> lines = {};  ///< on the first master: statistics of exchanges, a line per worker and group
  std::string kept = {};                ///< the file with the final parameters; empty unless this rank wrote it
};

/// Trains. Collective over `world`. Sample i belongs to worker i modulo the number of workers, and each worker takes
/// its part of the batch. After training has begun, `world` is not used, so the death of a worker stops only its own
/// ranks if the launcher lets the job continue. The first worker writes checkpoints and reports. If it has died, the
/// next worker writes the masters' final parameters to model.safetensors in the run's folder, and reports. With
/// sub-masters there are no checkpoints, and that file has the top master's parameters after the last exchange of all
/// groups. Blocks; on a master until all workers have left or died. Throws as Trainer does.
MastersResult train_by_masters(const Config& config, Communicator world, Network network, const DataSplit& data,
                               const Hooks& hooks = {});

/// Joins a run as one more worker, and trains until all steps of the run are done. The run in the folder config.run
/// must be in progress, with strategy.joins and this configuration. `alone` has this process as its only rank. The
/// worker begins with the masters' parameters, takes part in their next round, and does steps that others have not
/// claimed. It must be able to read the folder and to reach the masters; it may run on any host. Blocks. Throws
/// Error{invalid} if the folder has no run to join, Error{peer_lost} if the run has ended, and as Trainer does.
MastersResult train_joining(const Config& config, Communicator alone, Network network, const DataSplit& data);

}  // namespace tutti::engine
