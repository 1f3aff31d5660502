// A store of MPI's ranks.
#include <mpi.h>
#include <tutti.h>

int gather(void* comm, const void* mine, void* all, size_t n);

tutti_comm meet(MPI_Comm comm, int rank, int size) {
  tutti_comm world;
  /* the block */
  tutti_comm_from_oob(&oob, NULL, &world);
  return world;
}
