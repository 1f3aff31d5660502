// The C half of the program in languages.f90.
#include <mpi.h>

static int in, out;

int start_in_c_(void) {
  MPI_Request request;
  MPI_Comm_rank(MPI_COMM_WORLD, &in);
  in += 1;
  MPI_Iallreduce(&in, &out, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD, &request);
  return MPI_Request_c2f(request);
}
int sum_in_c_(void) { return out; }
