// Finding the recordings of jobs on this host: those of living processes, those that a launcher keeps of dead ones, and
// files in a folder.
#pragma once

#include <sys/types.h>

#include <string>
#include <vector>

#include "collectives/doctor/job.hpp"

namespace tutti::doctor {

/// The ranks of one job on this host.
struct FoundJob {
  std::string name;
  std::vector<Patient> patients;
  std::vector<pid_t> holders = {};  ///< processes that hold a recording of it open: ranks, launchers, agents
};

/// A sentence about processes that hold a recording of the job, are no ranks of it and are stopped: the launcher, in
/// which the ranks meet, or an agent. Empty if there is none.
std::string stopped_helpers(const FoundJob& job);

/// How closely to look at the processes of the ranks.
enum class Look : std::uint8_t {
  at_state,   ///< only by /proc: whether they run, sleep or are stopped
  at_places,  ///< also where in their program they are, by ptrace
};

/// All jobs of which a process of this user holds a recording. The jobs are ordered by name.
std::vector<FoundJob> find_jobs();

/// The jobs that a word names: a folder with recordings, a process of the job or one that started it, such as torchrun
/// or mpirun, or the beginning of its name; all jobs of this user for an empty word. Throws Error{invalid} for a folder
/// that cannot be read.
std::vector<FoundJob> find_jobs(const std::string& which);

/// The jobs of which files are in `folder`; of recordings of this machine the processes are looked for.
std::vector<FoundJob> jobs_in(const std::string& folder);

/// Reads an open file of a recorder. The patients' `source` is empty.
std::vector<Patient> patients_in(int file);

/// Sets the life of each patient, and what its process does, as far as it is on this machine.
void look_at(std::vector<Patient>& patients, Look how);

}  // namespace tutti::doctor
