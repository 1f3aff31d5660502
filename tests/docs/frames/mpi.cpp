// A communicator of MPI's ranks.
#include <mpi.h>
#include <tutti_mpi.hpp>

void start() {
  // the block
}
