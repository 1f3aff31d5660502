// Bootstrap: who am I, how many are we, where do we meet.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "transports/core/settings.hpp"
#include "transports/core/store.hpp"

namespace tutti {

/// What a rank must know before it can find the others.
struct Bootstrap {
  int rank = 0;
  int size = 1;
  int local_rank = 0;  ///< among the ranks that the launcher started on this host, where it says so
  int local_size = 1;
  std::shared_ptr<Store> store;  ///< null only for size 1
  Settings settings;             ///< with job and secret filled in
  std::int64_t native = -1;      ///< the communicator of a library that the program uses already; see provider.hpp
  std::string launcher;  ///< "tutti run", "hand", "torchrun", "Open MPI", "hydra", "SLURM", "Kubernetes", "alone"
};

/// Reads the launcher's environment: TUTTI_RANK/SIZE/STORE/JOB/SECRET of `tutti run`, or set by hand; torchrun's
/// RANK, WORLD_SIZE, MASTER_ADDR, MASTER_PORT; Open MPI's PMIx or OMPI_COMM_WORLD_*; hydra's PMI-1;
/// SLURM's SLURM_PROCID, SLURM_NTASKS; JOB_COMPLETION_INDEX of a Kubernetes Job, with TUTTI_SIZE; or alone. The first
/// of these that is complete wins; where two disagree, Error{invalid} explains both. TUTTI_STORE overrides the meeting
/// point. Blocks until the store answers, at most settings.connect_timeout.
Bootstrap bootstrap_from_environment(const Settings& settings);

}  // namespace tutti
