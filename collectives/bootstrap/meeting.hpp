// The store of a job's ranks, for each launcher; private to collectives/bootstrap.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "collectives/bootstrap/membership.hpp"
#include "tutti/settings.hpp"
#include "tutti/store.hpp"

namespace tutti::launchers {

struct Meeting {
  std::shared_ptr<Store> store;  ///< owns the server on the rank that serves it
  std::string job;               ///< equal on all ranks
  std::string place;             ///< for the log: "tcp://10.0.0.1:29501"
  bool guarded = true;           ///< false: without a secret, only the job's name protects the store
};

/// Opens the store named by TUTTI_STORE, or the store that the launcher's ranks agree on:
///
///   torchrun   rank 0 serves on the first free port of MASTER_PORT + 1 .. + 16; the others try these in turn, and the
///              store of their job proves that it knows TORCHELASTIC_RUN_ID, restart count and MASTER_PORT
///   Open MPI   a file store in the job's session folder, which mpirun removes; on several hosts TUTTI_STORE is needed
///   hydra      rank 0 serves on any port and publishes its addresses and a secret through PMI
///   SLURM      rank 0, on the step's first host, serves on the first free of 16 ports computed from job and step
///
/// A process that bootstraps again for the same job gets the same store while the first one is alive. The rank that
/// serves waits a few seconds for the others to disconnect before it closes the store.
Meeting meet(const Membership& membership, const Settings& settings, const Environment& environment, Deadline until);

/// The 16 ports that a launcher's ranks try, from `first` on; none is below 1024 or above 65535.
std::vector<int> port_candidates(int first);

}  // namespace tutti::launchers
