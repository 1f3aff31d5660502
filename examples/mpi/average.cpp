// A plain MPI program that does not mention tutti:
// mpicxx average.cpp -o average, then `tutti run --preload-mpi -np 4 ./average`.
#include <mpi.h>

#include <cstdio>
#include <vector>

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  int rank = 0, size = 1;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  std::vector<double> gradient(1 << 20, rank);
  MPI_Allreduce(MPI_IN_PLACE, gradient.data(), static_cast<int>(gradient.size()), MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
  if (rank == 0) std::printf("the average of %d ranks is %g\n", size, gradient[0] / size);
  MPI_Finalize();
}
