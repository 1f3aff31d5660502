// Prints the mean time of a collective in microseconds, for each size: mean allreduce|bcast CALLS BYTES...
//
// The time is that of the slowest rank. No barrier separates the calls, as in a program. benchmarks/neighbours compiles
// this file with each MPI.
#include <mpi.h>

#include <cstdio>
#include <cstdlib>
#include <string_view>
#include <vector>

namespace {

constexpr int warmup = 10;

void call(bool reduces, const std::vector<float>& in, std::vector<float>& out) {
  const int count = static_cast<int>(in.size());
  if (reduces)
    MPI_Allreduce(in.data(), out.data(), count, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
  else
    MPI_Bcast(out.data(), count, MPI_FLOAT, 0, MPI_COMM_WORLD);
}

// Returns the time of the slowest rank; 0 on ranks other than 0. Sets `right` to false if a result here is wrong.
double measure(bool reduces, int calls, std::size_t count, bool& right) {
  int rank = 0, ranks = 0;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &ranks);
  const std::vector<float> in(count, static_cast<float>(rank + 1));
  std::vector<float> out(count, rank == 0 ? 1.0f : 0.0f);
  for (int i = 0; i < warmup; ++i) call(reduces, in, out);
  MPI_Barrier(MPI_COMM_WORLD);
  double time = MPI_Wtime(), slowest = 0;
  for (int i = 0; i < calls; ++i) call(reduces, in, out);
  time = (MPI_Wtime() - time) / calls * 1e6;
  MPI_Reduce(&time, &slowest, 1, MPI_DOUBLE, MPI_MAX, 0, MPI_COMM_WORLD);
  const float wanted = reduces ? static_cast<float>(ranks * (ranks + 1)) / 2 : 1.0f;
  for (const float value : out) right &= value == wanted;
  return slowest;
}

}  // namespace

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  if (argc < 4) MPI_Abort(MPI_COMM_WORLD, 2);
  int rank = 0;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  bool right = true;
  for (int i = 3; i < argc; ++i) {
    const auto count = static_cast<std::size_t>(std::atol(argv[i])) / sizeof(float);
    const double time = measure(std::string_view(argv[1]) == "allreduce", std::atoi(argv[2]), count, right);
    if (rank == 0) std::printf("%.2f%c", time, i + 1 < argc ? ' ' : '\n');
  }
  if (!right) std::fprintf(stderr, "rank %d has wrong results\n", rank);
  MPI_Finalize();
  return right ? 0 : 1;
}
