// A job that goes on when ranks die: elastic_probe STEPS DEATH [--alone]. Rank 1 of the first start dies at step DEATH.
// The others admit the process that replaces it, unless --alone is given, and end after STEPS steps.
#include <csignal>
#include <cstdio>
#include <cstdlib>

#include "tutti.hpp"

int main(int argc, char** argv) {
  if (argc < 3) return 2;
  const int steps = std::atoi(argv[1]), death = std::atoi(argv[2]);
  const bool admits = argc == 3, joined = std::getenv("TUTTI_JOIN") != nullptr;
  try {
    tutti::Communicator world = tutti::Communicator::from_env();
    const int size = std::atoi(std::getenv("TUTTI_SIZE"));
    if (joined) std::printf("joined as rank %d of %d\n", world.rank(), world.size());
    for (int step = 0; step < steps;) {
      try {
        if (admits && world.size() < size) world = world.grow(1, 20);
        step = world.allreduce(step, tutti::max).wait() + 1;
        if (!joined && world.rank() == 1 && step == death) std::raise(SIGKILL);
      } catch (const tutti::Error& error) {
        if (error.code() != tutti::Code::peer_lost) throw;
        world = world.shrink();
      }
    }
    std::printf("rank %d of %d has finished\n", world.rank(), world.size());
  } catch (const tutti::Error& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 1;
  }
}
