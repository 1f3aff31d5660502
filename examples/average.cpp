// The program of the README: an average and a maximum over all ranks.
#include <cstdio>
#include <tutti.hpp>
#include <vector>

int main() {
  auto world = tutti::Communicator::from_env();  // from tutti run, mpirun, torchrun, srun; or alone
  const int rank = world.rank();
  std::vector<float> gradient(1 << 20, 1.0f + rank);

  auto pending = world.allreduce(gradient, tutti::avg);  // starts now, returns a handle
  float worst = world.allreduce(0.5f * rank, tutti::max).wait();
  pending.wait();  // throws tutti::Error on failure

  if (rank == 0) std::printf("%d ranks: mean %g, worst %g\n", world.size(), gradient[0], worst);
}
