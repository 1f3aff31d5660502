// A mean and a maximum over all ranks: `tutti run -np 4 ./average`.
#include <stdio.h>
#include <tutti.h>

int main(void) {
  tutti_comm world;
  if (tutti_comm_from_env(NULL, &world) != TUTTI_OK) return fprintf(stderr, "%s\n", tutti_last_error()), 1;
  int rank, size;
  tutti_comm_rank(world, &rank);
  tutti_comm_size(world, &size);
  float gradient[1024], worst = 0.5f * (float)rank;
  for (int i = 0; i < 1024; ++i) gradient[i] = 1.0f + (float)rank;

  tutti_request pending;
  // Starts the call, which tutti_wait() completes.
  tutti_allreduce(world, TUTTI_IN_PLACE, gradient, 1024, TUTTI_F32, TUTTI_AVG, NULL, &pending);
  tutti_allreduce(world, TUTTI_IN_PLACE, &worst, 1, TUTTI_F32, TUTTI_MAX, NULL, NULL);
  if (tutti_wait(pending) != TUTTI_OK) fprintf(stderr, "%s\n", tutti_last_error());
  if (rank == 0) printf("%d ranks: mean %g, worst %g\n", size, gradient[0], worst);
  return tutti_request_free(pending), tutti_comm_free(world);
}
