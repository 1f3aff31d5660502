// An MPI program that hangs: what `tutti doctor` says of it is tested.
//
//   hangs SCENE SECONDS    after so many seconds it ends by itself
//
// Scene `skips`: rank 1 makes no third Allreduce on a communicator named "halo". Scene `other`: it makes a Bcast
// instead. Scene `sends`: then all ranks send to themselves without a receive, which the preload does not take.
#include <mpi.h>

#include <unistd.h>

#include <cstdlib>
#include <cstring>

extern "C" [[gnu::noinline]] void loses_its_way(unsigned seconds) { ::sleep(seconds); }

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  if (argc != 3) MPI_Abort(MPI_COMM_WORLD, 2);
  const auto seconds = static_cast<unsigned>(std::atoi(argv[2]));
  ::alarm(seconds);
  int rank = 0;
  MPI_Comm halo;
  MPI_Comm_dup(MPI_COMM_WORLD, &halo);
  MPI_Comm_set_name(halo, "halo");
  MPI_Comm_rank(halo, &rank);
  double sums[100] = {};
  for (int call = 0; call < 4; ++call) {
    const bool is_culprit = rank == 1 && call == 2 && std::strcmp(argv[1], "sends") != 0;
    if (is_culprit && std::strcmp(argv[1], "skips") == 0) loses_its_way(2 * seconds);
    if (is_culprit)
      MPI_Bcast(sums, 100, MPI_DOUBLE, 0, halo);
    else
      MPI_Allreduce(MPI_IN_PLACE, sums, 100, MPI_DOUBLE, MPI_SUM, halo);
  }
  if (std::strcmp(argv[1], "sends") == 0) MPI_Ssend(sums, 100, MPI_DOUBLE, rank, 7, halo);
  MPI_Finalize();
}
