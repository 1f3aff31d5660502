// Descriptors: how many a rank holds open for the other ranks of its host.
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <cstdio>
#include <filesystem>
#include <iterator>
#include <stdexcept>
#include <system_error>
#include <vector>

#include "benchmarks/growth/jobs.hpp"
#include "benchmarks/growth/law.hpp"
#include "benchmarks/growth/store_process.hpp"

namespace tutti::growth {
namespace {

int open_descriptors() {
  const std::filesystem::directory_iterator all("/proc/self/fd");
  return static_cast<int>(std::distance(begin(all), end(all)));
}

/// Plays one rank, a process that reaches the others by shared memory. All ranks exchange messages in an alltoall.
/// Returns how many more descriptors a rank has open than before it connected: the maximum over all ranks.
int descriptors_of_a_job(const std::shared_ptr<Store>& store, int rank, int size) {
  Bootstrap self;
  self.rank = rank;
  self.size = self.local_size = size;
  self.store = store;
  self.settings.transport = "shm";
  self.settings.job = "growth-" + std::to_string(getppid());
  self.settings.secret = "secret";
  self.settings.tuning = "off";
  const int before = open_descriptors();
  Communicator world = Communicator::connect(self);
  std::vector<int> given(static_cast<std::size_t>(size)), got(given.size());
  world.alltoall(given, got).wait();
  const int most = world.allreduce(open_descriptors() - before, max).wait();
  world.barrier().wait();
  return most;
}

[[noreturn]] void be_rank(const StoreProcess& server, int rank, int size, int found) {
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  try {
    const int most = descriptors_of_a_job(server.connect(), rank, size);
    _exit(rank != 0 || write(found, &most, sizeof most) == sizeof most ? 0 : 1);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "growth_laws: rank %d: %s\n", rank, error.what());
    _exit(1);
  }
}

double descriptors_for_a_peer(std::int64_t processes) {
  const auto size = static_cast<int>(processes);
  StoreProcess server(size);
  int found[2];
  if (pipe(found) != 0) throw std::system_error(errno, std::generic_category(), "pipe");
  std::vector<pid_t> ranks;
  bool failed = false;
  while (static_cast<int>(ranks.size()) < size && !failed) {
    const pid_t process = fork();
    if (process == 0) be_rank(server, static_cast<int>(ranks.size()), size, found[1]);
    failed = process < 0;
    if (!failed) ranks.push_back(process);
  }
  for (const pid_t rank : ranks) {
    if (failed) kill(rank, SIGKILL);
    int status = 0;
    failed |= waitpid(rank, &status, 0) != rank || status != 0;
  }
  int most = 0;
  if (!failed) failed = read(found[0], &most, sizeof most) != sizeof most;
  close(found[0]);
  close(found[1]);
  if (failed) throw std::runtime_error("the job whose descriptors are counted has failed");
  return static_cast<double>(most) / (size - 1);
}

}  // namespace

std::vector<Law> descriptor_laws() {
  return {
      {"descriptors",
       "of a rank for each other rank of its host, after all talked to all",
       How::processes,
       {16, 64, 128},
       descriptors_for_a_peer,
       0,
       1.25},
  };
}

}  // namespace tutti::growth
