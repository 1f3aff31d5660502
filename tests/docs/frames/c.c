// Ranks that meet by MPI.
#include <mpi.h>
#include <tutti.h>

/* the block */
