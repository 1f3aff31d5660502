// Bootstrap: this process's rank, the number of ranks, and the store where they meet.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "transports/core/settings.hpp"
#include "transports/core/store.hpp"

namespace tutti {

/// What a rank must know to connect to the others.
struct Bootstrap {
  int rank = 0;
  int size = 1;
  int local_rank = 0;  ///< among the ranks that the launcher started on this host, if it says so
  int local_size = 1;
  std::shared_ptr<Store> store;  ///< null if and only if size is 1
  Settings settings;             ///< with `job` and `secret` set
  std::int64_t native = -1;      ///< a communicator of a library that the program uses already; see provider.hpp
  std::string launcher;  ///< "tutti run", "hand", "torchrun", "Open MPI", "hydra", "SLURM", "Kubernetes", "alone"
};

/// Reads the launcher's environment: TUTTI_RANK/SIZE/STORE/JOB/SECRET set by `tutti run` or by hand; torchrun's RANK,
/// WORLD_SIZE, MASTER_ADDR, MASTER_PORT; Open MPI's PMIx or OMPI_COMM_WORLD_*; hydra's PMI-1; SLURM's SLURM_PROCID,
/// SLURM_NTASKS; JOB_COMPLETION_INDEX of a Kubernetes Job with TUTTI_SIZE; otherwise a single rank. The first
/// complete one is used; if two disagree, throws Error{invalid} that describes both. TUTTI_STORE overrides the
/// store's address. Blocks until the store answers, at most settings.connect_timeout seconds.
Bootstrap bootstrap_from_environment(const Settings& settings);

}  // namespace tutti
