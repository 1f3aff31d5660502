// Making a communicator from an id.
#include <stdio.h>
#include <tutti.h>

void send_to_all_ranks(void* data, size_t bytes);
int fail(void);

int connect_ranks(int rank, int size) {
  // the block
  return tutti_comm_free(world);
}
