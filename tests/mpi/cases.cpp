// Compares every collective of MPI with its PMPI form, which no preload intercepts: types, operators, layouts, roots,
// in place, communicators. Prints how many calls of each function a preload should have taken, and "ok".
//
//     cases [requests] [brief]      with `requests` through the functions that return one; with `brief` fewer of them
#include <cstdlib>

#include "tests/mpi/twins.hpp"

using namespace twins;

namespace {

Where place(MPI_Comm comm) {
  Where where{comm, 0, 1};
  MPI_Comm_rank(comm, &where.rank);
  MPI_Comm_size(comm, &where.size);
  return where;
}

void everything(MPI_Comm comm) {
  const Where where = place(comm);
  reductions(where);
  moves(where);
}

}  // namespace

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  for (int i = 1; i < argc; ++i) {
    with_requests = with_requests || std::string(argv[i]) == "requests";
    brief = brief || std::string(argv[i]) == "brief";
  }
  int rank = 0;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  everything(MPI_COMM_WORLD);
  MPI_Comm reversed, copy;
  MPI_Comm_split(MPI_COMM_WORLD, rank == 0 ? MPI_UNDEFINED : 0, -rank, &reversed);  // all but the first, in reverse
  if (reversed != MPI_COMM_NULL) {
    const std::map<std::string, int> before = made;
    if (with_requests) {
      MPI_Barrier(reversed);  // after this call a preload knows the communicator
      ++made["Barrier"];
    }
    moves(place(reversed));
    MPI_Comm_free(&reversed);
  }
  for (int i = 0; i < 20; ++i) {  // MPI reuses the handles of these communicators
    MPI_Comm_dup(MPI_COMM_WORLD, &copy);
    int sum = 0;
    const int one = rank + i;
    MPI_Allreduce(&one, &sum, 1, MPI_INT, MPI_SUM, copy);
    ++made["Allreduce"];
    const int size = place(copy).size;
    if (sum != size * (size - 1) / 2 + size * i) ++failures;
    MPI_Comm_free(&copy);
  }
  MPI_Allreduce(MPI_IN_PLACE, &failures, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
  ++made["Allreduce"];
  if (rank == 0) {
    for (const auto& [name, count] : made) std::printf("%s %d\n", name.c_str(), count);
    std::printf("%s\n", failures == 0 ? "ok" : "failed");
  }
  MPI_Finalize();
  return failures == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
