// Bootstrap: this process's rank, the number of ranks, and the store where they meet.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "tutti/settings.hpp"
#include "tutti/store.hpp"

namespace tutti {

class Recorder;

/// The information that a rank needs to connect to the others.
struct Bootstrap {
  int rank = 0;
  int size = 1;
  int local_rank = 0;  ///< among the ranks that the launcher started on this host, if the launcher states it
  int local_size = 1;
  std::shared_ptr<Store> store;  ///< null if and only if size is 1
  Settings settings;             ///< with `job` and `secret` set
  std::int64_t native = -1;      ///< communicator of a library in use, as an integer (MPI_Comm_c2f); -1: none
  std::string launcher;  ///< "tutti run", "hand", "torchrun", "Open MPI", "hydra", "SLURM", "Kubernetes", "alone"
  /// Where processes wait to be admitted by Communicator::grow(): the store without the view of this start of the job.
  /// Null: none can.
  std::shared_ptr<Store> commons;
  std::uint64_t epoch = 0;             ///< see Communicator::epoch()
  std::shared_ptr<Recorder> recorder;  ///< the rank's flight recorder; null: the context makes it
};

/// Reads the launcher's environment: TUTTI_RANK/SIZE/STORE/JOB/SECRET set by `tutti run` or by hand; torchrun's RANK,
/// WORLD_SIZE, MASTER_ADDR, MASTER_PORT; Open MPI's PMIx or OMPI_COMM_WORLD_*; hydra's PMI-1; SLURM's SLURM_PROCID,
/// SLURM_NTASKS; JOB_COMPLETION_INDEX of a Kubernetes Job with TUTTI_SIZE; otherwise a single rank. Uses the first
/// launcher whose variables are complete. If two launchers disagree, throws Error{invalid} that describes both.
/// TUTTI_STORE overrides the store's address. With TUTTI_JOIN, waits without a limit until a running job's ranks call
/// Communicator::grow(), and describes this process's place in the new epoch. Otherwise blocks until the store answers,
/// at most settings.connect_timeout seconds.
Bootstrap bootstrap_from_environment(const Settings& settings);

/// Collectives of a library that the program already uses, such as MPI. Used during the bootstrap only.
struct CommonLibrary {
  std::string name;
  int rank = 0;
  int size = 1;
  std::int64_t native = -1;  ///< the library's communicator, as an integer (MPI_Comm_c2f); -1: none
  /// Copies rank 0's text to all ranks. All texts have the same length.
  std::function<void(std::string& text)> broadcast;
  /// Concatenates all ranks' texts in `all`, by rank. All texts have the same length.
  std::function<void(const std::string& mine, std::string& all)> allgather;
};

/// Collective over the library's ranks. Rank 0 serves the store. Throws Error.
Bootstrap bootstrap_over(const CommonLibrary& library, const Settings& settings);

}  // namespace tutti
