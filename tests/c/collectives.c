// Checks the results of every call on any number of ranks: `tutti run -np 4 collectives`. Rank r contributes r + 1, or
// values computed from it.
#include <math.h>
#include <poll.h>
#include <stdint.h>

#include "check.h"

enum { most = 8, block = 3 };

static tutti_comm world;
static int rank, size;

/// The sum of f(r) = (r + 1) * k over all ranks.
static int64_t total(int64_t k) { return k * size * (size + 1) / 2; }

static void reductions(void) {
  int64_t in[most * block], out[block], all[most * block];
  for (int i = 0; i < size * block; ++i) in[i] = (rank + 1) * (i + 1);
  ok(tutti_allreduce(world, in, all, (size_t)size * block, TUTTI_I64, TUTTI_SUM, NULL, NULL), "allreduce");
  for (int i = 0; i < size * block; ++i) check(all[i] == total(i + 1), "allreduce's sum");
  memcpy(all, in, sizeof all);
  ok(tutti_allreduce(world, TUTTI_IN_PLACE, all, (size_t)size * block, TUTTI_I64, TUTTI_MAX, NULL, NULL), "in place");
  for (int i = 0; i < size * block; ++i) check(all[i] == (int64_t)size * (i + 1), "allreduce's max");

  const int root = size - 1;
  ok(tutti_reduce(world, in, rank == root ? out : NULL, block, TUTTI_I64, TUTTI_SUM, root, NULL, NULL), "reduce");
  for (int i = 0; i < block && rank == root; ++i) check(out[i] == total(i + 1), "reduce's sum");

  ok(tutti_reduce_scatter(world, in, out, block, TUTTI_I64, TUTTI_SUM, NULL, NULL), "reduce_scatter");
  for (int i = 0; i < block; ++i) check(out[i] == total(rank * block + i + 1), "reduce_scatter's block");
  memcpy(all, in, sizeof all);
  ok(tutti_reduce_scatter(world, NULL, all, block, TUTTI_I64, TUTTI_SUM, NULL, NULL), "reduce_scatter in place");
  for (int i = 0; i < block; ++i) check(all[rank * block + i] == total(rank * block + i + 1), "its own block");

  size_t counts[most], before = 0;
  for (int r = 0; r < size; ++r) counts[r] = (size_t)(r % 3);
  for (int r = 0; r < rank; ++r) before += counts[r];
  ok(tutti_reduce_scatterv(world, in, out, counts, TUTTI_I64, TUTTI_SUM, NULL, NULL), "reduce_scatterv");
  for (size_t i = 0; i < counts[rank]; ++i)
    check(out[i] == total((int64_t)(before + i) + 1), "reduce_scatterv's block");
}

/// Item i of rank r's contribution.
static int64_t item(int r, int i) { return 100 * r + i; }

static void moves(void) {
  int64_t mine[block], all[most * block];
  const int root = size / 2;
  for (int i = 0; i < block; ++i) mine[i] = rank == root ? item(root, i) : -1;
  ok(tutti_broadcast(world, mine, block, TUTTI_I64, root, NULL, NULL), "broadcast");
  for (int i = 0; i < block; ++i) check(mine[i] == item(root, i), "broadcast's data");

  for (int i = 0; i < block; ++i) mine[i] = item(rank, i);
  ok(tutti_allgather(world, mine, all, block, TUTTI_I64, NULL, NULL), "allgather");
  for (int i = 0; i < size * block; ++i) check(all[i] == item(i / block, i % block), "allgather's blocks");
  memset(all, 0, sizeof all);
  memcpy(all + rank * block, mine, sizeof mine);
  ok(tutti_allgather(world, NULL, all, block, TUTTI_I64, NULL, NULL), "allgather in place");
  for (int i = 0; i < size * block; ++i) check(all[i] == item(i / block, i % block), "its blocks");

  memset(all, 0, sizeof all);
  ok(tutti_gather(world, mine, rank == root ? all : NULL, block, TUTTI_I64, root, NULL, NULL), "gather");
  for (int i = 0; i < size * block && rank == root; ++i) check(all[i] == item(i / block, i % block), "gather's blocks");
  for (int i = 0; i < size * block; ++i) all[i] = item(i / block, i % block);
  ok(tutti_scatter(world, all, mine, block, TUTTI_I64, root, NULL, NULL), "scatter");
  for (int i = 0; i < block; ++i) check(mine[i] == item(rank, i), "scatter's block");

  int64_t to_all[most * block];
  for (int i = 0; i < size * block; ++i) to_all[i] = item(rank, i / block);
  ok(tutti_alltoall(world, to_all, all, block, TUTTI_I64, NULL, NULL), "alltoall");
  for (int i = 0; i < size * block; ++i) check(all[i] == item(i / block, rank), "alltoall's blocks");
}

static void moves_with_counts(void) {
  int64_t mine[most], all[most * most];
  size_t counts[most], own[most], n = 0;
  const int root = 0;
  for (int r = 0; r < size; ++r) counts[r] = (size_t)r + 1;
  for (int i = 0; i <= rank; ++i) mine[i] = item(rank, i);
  ok(tutti_allgatherv(world, mine, counts[rank], all, counts, TUTTI_I64, NULL, NULL), "allgatherv");
  for (int r = 0; r < size; ++r)
    for (int i = 0; i <= r; ++i) check(all[n++] == item(r, i), "allgatherv's blocks");

  memset(all, 0, sizeof all);
  ok(tutti_gatherv(world, mine, counts[rank], all, rank == root ? counts : NULL, TUTTI_I64, root, NULL, NULL),
     "gatherv");
  n = 0;
  for (int r = 0; r < size && rank == root; ++r)
    for (int i = 0; i <= r; ++i) check(all[n++] == item(r, i), "gatherv's blocks");
  memset(mine, 0, sizeof mine);
  ok(tutti_scatterv(world, all, rank == root ? counts : NULL, mine, counts[rank], TUTTI_I64, root, NULL, NULL),
     "scatterv");
  for (int i = 0; i <= rank; ++i) check(mine[i] == item(rank, i), "scatterv's block");

  // Rank a sends b + 1 items to rank b.
  int64_t to_all[most * most];
  n = 0;
  for (int r = 0; r < size; ++r) {
    own[r] = (size_t)rank + 1;
    for (int i = 0; i <= r; ++i) to_all[n++] = item(rank, r);
  }
  ok(tutti_alltoallv(world, to_all, counts, all, own, TUTTI_I64, NULL, NULL), "alltoallv");
  for (int r = 0; r < size; ++r)
    for (int i = 0; i <= rank; ++i) check(all[r * (rank + 1) + i] == item(r, rank), "alltoallv's blocks");
  ok(tutti_barrier(world, NULL, NULL), "barrier");
}

static void views(void) {
  unsigned char truth[2] = {rank == 0, 1};
  ok(tutti_allreduce(world, NULL, truth, 2, TUTTI_BOOL, TUTTI_SUM, NULL, NULL), "sum of truth values");
  check(truth[0] == 1 && truth[1] == 1, "which is or");
  truth[0] = rank == 0;
  ok(tutti_allreduce(world, NULL, truth, 2, TUTTI_BOOL, TUTTI_PROD, NULL, NULL), "product of truth values");
  check(truth[0] == (size == 1) && truth[1] == 1, "which is and");
  check(tutti_allreduce(world, NULL, truth, 2, TUTTI_BOOL, TUTTI_AVG, NULL, NULL) == TUTTI_INVALID, "no mean of them");
  float complex_numbers[4] = {1, (float)rank, 2, 0};
  ok(tutti_allreduce(world, NULL, complex_numbers, 2, TUTTI_C64, TUTTI_SUM, NULL, NULL), "complex numbers");
  check(complex_numbers[0] == (float)size && complex_numbers[1] == (float)(size * (size - 1) / 2), "their sum");
  check(tutti_allreduce(world, NULL, complex_numbers, 2, TUTTI_C64, TUTTI_MAX, NULL, NULL) == TUTTI_INVALID, "no max");
  char bytes[5] = {(char)rank, 1, 2, 3, 4};
  ok(tutti_broadcast(world, bytes, 5, TUTTI_BYTES, size - 1, NULL, NULL), "bytes");
  check(bytes[0] == (char)(size - 1), "the bytes of the root");
  check(tutti_allreduce(world, NULL, bytes, 5, TUTTI_BYTES, TUTTI_SUM, NULL, NULL) == TUTTI_INVALID, "no sum of bytes");
  tutti_call call = TUTTI_CALL_INIT;
  call.factor = 0.5;
  double half = 4;
  ok(tutti_allreduce(world, NULL, &half, 1, TUTTI_F64, TUTTI_PREMUL_SUM, &call, NULL), "premul_sum");
  check(half == 2.0 * size, "half of each");
}

static void messages(void) {
  const int next = (rank + 1) % size, before = (rank + size - 1) % size;
  int32_t mine = rank, got = -1, source = -1, done = 0, found = -1;
  ok(tutti_sendrecv(world, &mine, 1, next, &got, 1, before, TUTTI_I32, 4, NULL, NULL), "sendrecv");
  check(got == before, "what the rank before had");
  tutti_request requests[2];
  ok(tutti_recv(world, &got, 1, TUTTI_I32, TUTTI_ANY_RANK, 5, NULL, &requests[0]), "recv from anyone");
  ok(tutti_send(world, &mine, 1, TUTTI_I32, next, 5, NULL, &requests[1]), "send");
  ok(tutti_wait_all(2, requests), "wait_all");
  ok(tutti_request_source(requests[0], &source), "the source");
  check(source == before && got == before, "who sent it");
  ok(tutti_test(requests[1], &done), "test");
  check(done == 1, "it is done");
  size_t which = 99;
  ok(tutti_wait_any(2, requests, 1, &which), "wait_any");
  check(which < 2, "one of them");
  for (int i = 0; i < 2; ++i) ok(tutti_request_free(requests[i]), "free");

  ok(tutti_recv(world, &got, 1, TUTTI_I32, before, 6, NULL, &requests[0]), "a receive that nobody sends to");
  check(tutti_request_source(requests[0], &source) == TUTTI_IN_PROGRESS, "it has no source yet");
  ok(tutti_wait_for(requests[0], 0.001, &done), "wait_for");
  check(done == 0, "it is not done");
  ok(tutti_request_cancel(requests[0], &done), "cancel");
  check(done == 1 && tutti_wait(requests[0]) == TUTTI_ABORTED, "it ends as aborted");
  ok(tutti_request_free(requests[0]), "free");
  ok(tutti_probe(world, TUTTI_ANY_RANK, 6, &found, NULL, NULL), "probe");
  check(found == 0, "nothing has come");
}

static void note(tutti_result result, void* user) {
  __atomic_store_n((int*)user, result == TUTTI_OK ? 1 : 2, __ATOMIC_RELEASE);
}

static void starts(void) {
  double first = rank + 1, second[2] = {1, 2};
  tutti_request request;
  ok(tutti_group_begin(world), "group_begin");
  ok(tutti_allreduce(world, NULL, &first, 1, TUTTI_F64, TUTTI_SUM, NULL, NULL), "collected");
  ok(tutti_allreduce(world, NULL, second, 2, TUTTI_F64, TUTTI_SUM, NULL, NULL), "collected, too");
  check(first == rank + 1, "nothing has started");
  refused(tutti_barrier(world, NULL, &request), "a request in a group");
  ok(tutti_group_end(world, &request), "group_end");
  ok(tutti_wait(request), "the group");
  check(first == (double)total(1) && second[1] == 2.0 * size, "the sums of both");
  ok(tutti_request_free(request), "free");
  refused(tutti_group_end(world, NULL), "no group was begun");

  static int told = 0;
  int fd = -1;
  ok(tutti_barrier(world, NULL, &request), "barrier");
  ok(tutti_request_eventfd(request, &fd), "eventfd");
  ok(tutti_request_then(request, note, &told), "then");
  struct pollfd ready = {fd, POLLIN, 0};
  check(poll(&ready, 1, 20000) == 1, "the descriptor is readable");
  ok(tutti_wait(request), "it is done");
  for (int i = 0; i < 20000 && __atomic_load_n(&told, __ATOMIC_ACQUIRE) == 0; ++i)
    check(poll(NULL, 0, 1) == 0, "a pause");
  check(__atomic_load_n(&told, __ATOMIC_ACQUIRE) == 1, "who wanted to be told was told");
  ok(tutti_request_free(request), "free");
}

static void groups(void) {
  tutti_comm half, same, own;
  int there = -1, global = -1;
  ok(tutti_comm_split(world, rank % 2, -rank, &half), "split");
  ok(tutti_comm_size(half, &there), "size");
  check(there == (size + 1 - rank % 2) / 2, "half of the ranks");
  ok(tutti_comm_world_rank(half, 0, &global), "world rank");
  check(global % 2 == rank % 2 && global >= size - 2, "the highest rank comes first");
  ok(tutti_comm_split(world, -1, 0, &same), "of no colour");
  check(same == NULL, "no member");
  ok(tutti_comm_dup(world, &same), "dup");
  const int zero = 0;
  ok(tutti_comm_subgroup(world, &zero, 1, &own), "subgroup");
  check((own != NULL) == (rank == 0), "its member alone has it");
  ok(tutti_comm_free(own), "free");
  ok(tutti_comm_group(world, &rank, 1, "alone", &own), "group");
  ok(tutti_comm_free(own), "free");
  char text[600];
  ok(tutti_comm_routes(world, rank, text, sizeof text), "routes");
  check(strcmp(text, "self") == 0, "to itself");
  ok(tutti_comm_set_name(world, "everyone"), "set_name");
  ok(tutti_comm_doctor(world, 60, text, sizeof text), "doctor");
  check(strstr(text, "Nothing is stuck") != NULL, text);
  ok(tutti_comm_explain(world, "allreduce", 1000, TUTTI_F32, TUTTI_SUM, text, sizeof text), "explain");
  check(strlen(text) > 5, "some reason");
  tutti_result alive = -1;
  ok(tutti_comm_error(same, &alive, NULL, text, sizeof text), "error");
  check(alive == TUTTI_OK && text[0] == '\0', "it is alive");
  ok(tutti_barrier(world, NULL, NULL), "barrier");
  ok(tutti_comm_abort(half, "the test says so"), "abort");
  for (int i = 0; i < 20000 && alive == TUTTI_OK; ++i) {  // until this rank learns of the abort
    ok(tutti_comm_error(half, &alive, NULL, text, sizeof text), "error");
    check(poll(NULL, 0, 1) == 0, "a pause");
  }
  check(alive == TUTTI_ABORTED && strstr(text, "the test says so") != NULL, "what was said");
  ok(tutti_comm_free(half), "free");
  ok(tutti_comm_free(same), "free");
}

static void memory(void) {
  void* data = NULL;
  tutti_memory made, mine;
  ok(tutti_allocate(world, 4096, &data, &made), "allocate");
  float* numbers = data;
  numbers[0] = 1;
  ok(tutti_register(world, numbers, 4096, &mine), "register");
  ok(tutti_allreduce(world, NULL, numbers, 1024, TUTTI_F32, TUTTI_SUM, NULL, NULL), "allreduce there");
  check(numbers[0] == (float)size && numbers[1023] == 0, "the sum");
  ok(tutti_memory_free(mine), "free");
  ok(tutti_memory_free(made), "free");
}

int main(void) {
  tutti_config config = TUTTI_CONFIG_INIT;
  config.settings = "timeout=60;log=warn";
  ok(tutti_comm_from_env(&config, &world), "from_env");
  ok(tutti_comm_rank(world, &rank), "rank");
  ok(tutti_comm_size(world, &size), "size");
  check(size <= most, "at most 8 ranks");
  reductions();
  moves();
  moves_with_counts();
  views();
  messages();
  starts();
  groups();
  memory();
  if (rank == 0) printf("%d ranks: %d checks passed on rank 0\n", size, checks);
  ok(tutti_comm_free(world), "free");
  return 0;
}
