// A program that uses MPI itself and gets its Communicators from MPI's: the whole world, and reversed halves of it.
//
//   from_mpi_probe single | multiple      which thread level it asks for
#include <mpi.h>

#include <cstdio>
#include <stdexcept>
#include <string>

#include "tests/support/cases.hpp"
#include "tests/support/require.hpp"
#include "tutti_mpi.hpp"

namespace {

using tutti::testing::require;

// The program receives from any source with any tag: such a receive must not match messages of tutti, nor the reverse.
void play(MPI_Comm comm) {
  int rank = 0, size = 0;
  MPI_Comm_rank(comm, &rank);
  MPI_Comm_size(comm, &size);
  int got = -1, mine = rank;
  MPI_Request request;
  MPI_Irecv(&got, 1, MPI_INT, MPI_ANY_SOURCE, MPI_ANY_TAG, comm, &request);
  auto world = tutti::from_mpi(comm);
  require(world.rank() == rank && world.size() == size, "rank and size");
  tutti::testing::play_the_rest(world);
  MPI_Send(&mine, 1, MPI_INT, (rank + 1) % size, 3, comm);
  MPI_Wait(&request, MPI_STATUS_IGNORE);
  require(got == (rank + size - 1) % size, "the program's own message");
}

int run(const std::string& how) {
  int rank = 0, level = 0;
  if (how == "single")
    MPI_Init(nullptr, nullptr);
  else
    MPI_Init_thread(nullptr, nullptr, MPI_THREAD_MULTIPLE, &level);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  play(MPI_COMM_WORLD);
  MPI_Comm half = MPI_COMM_NULL;
  MPI_Comm_split(MPI_COMM_WORLD, rank % 2, -rank, &half);
  play(half);
  MPI_Comm_free(&half);
  MPI_Finalize();
  if (rank == 0) std::puts("ok");
  return 0;
}

}  // namespace

int main(int count, char** words) {
  try {
    return run(count > 1 ? words[1] : "multiple");
  } catch (const std::exception& error) {
    std::fprintf(stderr, "from_mpi_probe: %s\n", error.what());
    return 1;
  }
}
