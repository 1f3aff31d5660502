// growth_threads RANKS: runs a job whose RANKS ranks are threads of one process: the start, an allreduce, a rank that
// is late, and a rank that gives up.
#include <pthread.h>

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <functional>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "benchmarks/growth/jobs.hpp"

namespace {

using namespace tutti;

/// The resident memory of this process, in KiB.
long resident() {
  std::ifstream status("/proc/self/status");
  for (std::string word; status >> word;)
    if (word == "VmRSS:") {
      long kib = 0;
      status >> kib;
      return kib;
    }
  return 0;
}

/// Prints, after each part, the seconds since the part before and the resident memory. Rank 0 uses it.
class Diary {
 public:
  void note(const char* part, int ranks) {
    const auto now = Clock::now();
    const long kib = resident();
    std::printf("%s: %.2f s, %ld KiB, %ld for each rank\n", part, Seconds(now - last_).count(), kib, kib / ranks);
    std::fflush(stdout);
    last_ = Clock::now();
  }

 private:
  Clock::time_point last_ = Clock::now();
};

struct Job {
  int ranks = 0;
  std::shared_ptr<Store> store = make_local_store();
  Diary diary;
  std::mutex mutex;
  int told = 0;  // number of ranks whose error contained the last rank's reason
};

void play(Job& job, int rank) {
  Communicator world = growth::world_of_thread(job.store, rank, job.ranks);
  const auto note = [&](const char* part) {
    world.barrier().wait();
    if (rank == 0) job.diary.note(part, job.ranks);
  };
  note("start and a barrier");
  std::vector<float> values(1024, 1.0f);
  world.allreduce(values).wait();
  if (values.front() != static_cast<float>(job.ranks)) std::fprintf(stderr, "rank %d: wrong sum\n", rank), std::exit(1);
  note("allreduce of 4 KiB");
  if (rank == job.ranks / 2) std::this_thread::sleep_for(std::chrono::seconds(2));
  try {
    note("a barrier with a rank that is 2 s late");
    if (rank == job.ranks - 1) world.abort("it gives up");
    for (;;) world.allreduce(values).wait();
  } catch (const Error& error) {
    const std::lock_guard lock(job.mutex);
    job.told += std::string(error.what()).find("it gives up") != std::string::npos ? 1 : 0;
  }
}

void* begin(void* of) {
  const std::unique_ptr<std::function<void()>> body(static_cast<std::function<void()>*>(of));
  (*body)();
  return nullptr;
}

}  // namespace

int main(int argc, char** argv) {
  const int ranks = argc == 2 ? std::atoi(argv[1]) : 0;
  if (ranks < 2) return std::fprintf(stderr, "usage: growth_threads RANKS (at least 2)\n"), 2;
  Job job;
  job.ranks = ranks;
  pthread_attr_t small;
  pthread_attr_init(&small);
  pthread_attr_setstacksize(&small, 256 << 10);
  std::vector<pthread_t> threads(static_cast<std::size_t>(ranks));
  for (int rank = 0; rank < ranks; ++rank) {
    auto body = std::make_unique<std::function<void()>>([&job, rank] {
      try {
        play(job, rank);
      } catch (const std::exception& error) {
        std::fprintf(stderr, "rank %d: %s\n", rank, error.what());
        std::exit(1);
      }
    });
    if (pthread_create(&threads[static_cast<std::size_t>(rank)], &small, begin, body.release()) != 0)
      return std::fprintf(stderr, "no thread for rank %d: raise `ulimit -u`, or pids.max\n", rank), 1;
  }
  for (const pthread_t thread : threads) pthread_join(thread, nullptr);
  job.diary.note("a rank that gives up, and the end", ranks);
  std::printf("told of it: %d of %d\n", job.told, ranks);
  return job.told == ranks ? 0 : 1;
}
