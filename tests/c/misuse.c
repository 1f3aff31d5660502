// Calls every function with what it must refuse: NULL, wrong numbers, structs of wrong sizes. Each call returns an
// error and a text, and the communicator works afterwards. Also creates and frees communicators a thousand times.
#include <math.h>
#include <sys/wait.h>
#include <unistd.h>

#include "check.h"

static tutti_comm world;
static double numbers[4] = {1, 2, 3, 4};

static void meetings(void) {
  tutti_config config = TUTTI_CONFIG_INIT;
  tutti_store_ops ops;
  tutti_oob oob;
  tutti_store store = NULL;
  tutti_unique_id id;
  tutti_comm comm = NULL;
  memset(&ops, 0, sizeof ops);
  memset(&oob, 0, sizeof oob);
  memset(&id, 0, sizeof id);
  refused(tutti_store_create(NULL, &store), "store_create(NULL)");
  refused(tutti_store_create(&ops, &store), "store_create without a size");
  ops.struct_size = sizeof ops;
  refused(tutti_store_create(&ops, &store), "store_create without functions");
  refused(tutti_store_open(NULL, NULL, &store), "store_open(NULL)");
  refused(tutti_store_open("ftp://nowhere", NULL, &store), "store_open of no store");
  refused(tutti_get_unique_id(NULL), "get_unique_id(NULL)");
  refused(tutti_comm_from_env(NULL, NULL), "from_env(NULL)");
  refused(tutti_comm_from_store(NULL, &config, &comm), "from_store(NULL)");
  refused(tutti_comm_from_unique_id(NULL, &config, &comm), "from_unique_id(NULL)");
  refused(tutti_comm_from_unique_id(&id, NULL, &comm), "from_unique_id without a config");
  refused(tutti_comm_from_unique_id(&id, &config, &comm), "from_unique_id of zeros");
  refused(tutti_comm_from_oob(NULL, NULL, &comm), "from_oob(NULL)");
  oob.struct_size = sizeof oob;
  refused(tutti_comm_from_oob(&oob, NULL, &comm), "from_oob without a function");
  config.rank = 3;
  refused(tutti_comm_from_unique_id(&id, &config, &comm), "rank 3 of 1");
  config.rank = 0;
  config.timeout = -1;
  refused(tutti_comm_from_env(&config, &comm), "a negative timeout");
  config.timeout = 0;
  config.settings = "colour=red";
  refused(tutti_comm_from_env(&config, &comm), "no such setting");
  config.settings = "colour";
  refused(tutti_comm_from_env(&config, &comm), "no value");
  check(comm == NULL && store == NULL, "nothing was written");
}

static void sizes_of_structs(void) {
  struct {
    tutti_call call;
    double more[2];
  } newer = {TUTTI_CALL_INIT, {0, 0}};
  newer.call.struct_size = sizeof newer;
  ok(tutti_allreduce(world, NULL, numbers, 4, TUTTI_F64, TUTTI_SUM, &newer.call, NULL), "a longer struct of zeros");
  newer.more[1] = 1;
  refused(tutti_allreduce(world, NULL, numbers, 4, TUTTI_F64, TUTTI_SUM, &newer.call, NULL),
          "a field that is not known");
  tutti_call call = TUTTI_CALL_INIT;
  call.struct_size = 16;  // as in an older version, whose struct ends after the timeout
  call.device = 12345;
  ok(tutti_allreduce(world, NULL, numbers, 4, TUTTI_F64, TUTTI_SUM, &call, NULL), "a shorter struct");
  call.struct_size = 3;
  refused(tutti_allreduce(world, NULL, numbers, 4, TUTTI_F64, TUTTI_SUM, &call, NULL), "no size");
  call.struct_size = (size_t)1 << 40;
  refused(tutti_allreduce(world, NULL, numbers, 4, TUTTI_F64, TUTTI_SUM, &call, NULL), "no size, either");
}

static void survival(void) {
  tutti_comm made = NULL;
  uint64_t bits = 5, epoch = 9;
  int n = 7;
  refused(tutti_comm_agree(NULL, &bits, NULL, NULL), "agree on NULL");
  refused(tutti_comm_agree(world, NULL, NULL, NULL), "agree without bits");
  ok(tutti_comm_agree(world, &bits, NULL, NULL), "agree alone");
  check(bits == 5, "its own bits");
  refused(tutti_comm_shrink(NULL, &made), "shrink of NULL");
  refused(tutti_comm_shrink(world, NULL), "shrink to NULL");
  refused(tutti_comm_grow(NULL, 1, 0, &made), "grow of NULL");
  refused(tutti_comm_grow(world, 1, 0, NULL), "grow to NULL");
  refused(tutti_comm_grow(world, -1, 0, &made), "grow by less than nobody");
  refused(tutti_comm_grow(world, 1, NAN, &made), "grow with a patience that is no number");
  refused(tutti_comm_waiting(NULL, &n), "waiting of NULL");
  refused(tutti_comm_waiting(world, NULL), "waiting to NULL");
  refused(tutti_comm_epoch(NULL, &epoch), "epoch of NULL");
  refused(tutti_comm_epoch(world, NULL), "epoch to NULL");
  check(made == NULL && epoch == 9 && n == 7, "nothing was written");
}

static void communicators(void) {
  tutti_comm made = NULL;
  tutti_result code;
  int n = -7;
  char text[8];
  refused(tutti_comm_rank(NULL, &n), "rank of NULL");
  refused(tutti_comm_rank(world, NULL), "rank to NULL");
  refused(tutti_comm_size(NULL, &n), "size of NULL");
  refused(tutti_comm_size(world, NULL), "size to NULL");
  refused(tutti_comm_world_rank(world, 1, &n), "rank 1 of 1");
  refused(tutti_comm_world_rank(world, 0, NULL), "world_rank to NULL");
  refused(tutti_comm_split(NULL, 0, 0, &made), "split of NULL");
  refused(tutti_comm_split(world, 0, 0, NULL), "split to NULL");
  refused(tutti_comm_subgroup(world, NULL, 1, &made), "subgroup of NULL");
  refused(tutti_comm_subgroup(world, &n, 0, &made), "subgroup of none");
  refused(tutti_comm_group(world, NULL, 1, "one", &made), "group of NULL");
  n = 0;
  refused(tutti_comm_group(world, &n, 1, NULL, &made), "group without a name");
  refused(tutti_comm_dup(NULL, &made), "dup of NULL");
  refused(tutti_comm_dup(world, NULL), "dup to NULL");
  refused(tutti_comm_node(NULL, &made), "node of NULL");
  refused(tutti_comm_across(NULL, &made), "across of NULL");
  refused(tutti_comm_leaders(NULL, &made), "leaders of NULL");
  survival();
  refused(tutti_comm_routes(world, 5, text, sizeof text), "routes of nobody");
  refused(tutti_comm_routes(world, 0, NULL, 8), "routes to NULL");
  refused(tutti_comm_routes(world, 0, text, 0), "routes without room");
  refused(tutti_comm_explain(world, "dance", 1, TUTTI_F32, TUTTI_SUM, text, sizeof text), "no such call");
  refused(tutti_comm_explain(world, NULL, 1, TUTTI_F32, TUTTI_SUM, text, sizeof text), "explain NULL");
  refused(tutti_comm_error(NULL, &code, NULL, NULL, 0), "error of NULL");
  refused(tutti_comm_error(world, NULL, NULL, NULL, 0), "error to NULL");
  refused(tutti_comm_set_name(world, NULL), "a name that is NULL");
  refused(tutti_comm_doctor(world, NAN, text, sizeof text), "a patience that is no number");
  refused(tutti_comm_doctor(world, 1, NULL, 8), "doctor to NULL");
  refused(tutti_comm_abort(NULL, "why"), "abort of NULL");
  ok(tutti_comm_free(NULL), "free of NULL");
  check(made == NULL, "nothing was written");
}

static void calls(void) {
  const size_t none = 0, one = 1, two[2] = {1, 1};
  double out[4];
  refused(tutti_allreduce(NULL, numbers, out, 1, TUTTI_F64, TUTTI_SUM, NULL, NULL), "allreduce on NULL");
  refused(tutti_allreduce(world, numbers, NULL, 1, TUTTI_F64, TUTTI_SUM, NULL, NULL), "allreduce to NULL");
  refused(tutti_allreduce(world, numbers, out, 1, 57, TUTTI_SUM, NULL, NULL), "no such type");
  refused(tutti_allreduce(world, numbers, out, 1, TUTTI_F64, 9, NULL, NULL), "no such operator");
  refused(tutti_allreduce(world, numbers, out, 1, TUTTI_F64, TUTTI_BAND, NULL, NULL), "bits of a number");
  refused(tutti_allreduce(world, numbers, out, (size_t)-1, TUTTI_F64, TUTTI_SUM, NULL, NULL), "too many");
  refused(tutti_allreduce(world, numbers, numbers + 1, 2, TUTTI_F64, TUTTI_SUM, NULL, NULL), "buffers that overlap");
  refused(tutti_reduce(world, numbers, NULL, 1, TUTTI_F64, TUTTI_SUM, 0, NULL, NULL), "reduce to NULL");
  refused(tutti_reduce(world, numbers, out, 1, TUTTI_F64, TUTTI_SUM, 1, NULL, NULL), "root 1 of 1");
  refused(tutti_reduce_scatter(world, numbers, NULL, 1, TUTTI_F64, TUTTI_SUM, NULL, NULL), "reduce_scatter to NULL");
  refused(tutti_reduce_scatterv(world, numbers, out, NULL, TUTTI_F64, TUTTI_SUM, NULL, NULL), "without counts");
  refused(tutti_broadcast(world, NULL, 1, TUTTI_F64, 0, NULL, NULL), "broadcast of NULL");
  refused(tutti_broadcast(world, out, 1, TUTTI_F64, -1, NULL, NULL), "root -1");
  refused(tutti_allgather(world, numbers, NULL, 1, TUTTI_F64, NULL, NULL), "allgather to NULL");
  refused(tutti_allgatherv(world, numbers, 1, out, NULL, TUTTI_F64, NULL, NULL), "allgatherv without counts");
  refused(tutti_allgatherv(world, numbers, 2, out, &one, TUTTI_F64, NULL, NULL), "allgatherv of another count");
  refused(tutti_gather(world, numbers, NULL, 1, TUTTI_F64, 0, NULL, NULL), "gather to NULL");
  refused(tutti_gatherv(world, numbers, 1, out, NULL, TUTTI_F64, 0, NULL, NULL), "gatherv without counts");
  refused(tutti_scatter(world, NULL, out, 1, TUTTI_F64, 0, NULL, NULL), "scatter of NULL");
  refused(tutti_scatterv(world, numbers, NULL, out, 1, TUTTI_F64, 0, NULL, NULL), "scatterv without counts");
  refused(tutti_scatterv(world, numbers, two, out, 3, TUTTI_F64, 0, NULL, NULL), "scatterv of another count");
  refused(tutti_alltoall(world, numbers, NULL, 1, TUTTI_F64, NULL, NULL), "alltoall to NULL");
  refused(tutti_alltoallv(world, numbers, NULL, out, &one, TUTTI_F64, NULL, NULL), "alltoallv without counts");
  refused(tutti_alltoallv(world, numbers, &one, out, NULL, TUTTI_F64, NULL, NULL), "alltoallv without their counts");
  refused(tutti_alltoallv(world, NULL, &none, out, &one, TUTTI_F64, NULL, NULL), "alltoallv in place of other counts");
  refused(tutti_allreduce(world, NULL, out, (size_t)1 << 60, TUTTI_F64, TUTTI_SUM, NULL, NULL), "2^63 bytes");
  refused(tutti_allreduce(world, numbers, out, (size_t)1 << 62, TUTTI_F32, TUTTI_SUM, NULL, NULL), "2^64 bytes");
  refused(tutti_broadcast(world, out, (size_t)1 << 60, TUTTI_C128, 0, NULL, NULL), "2^64 bytes of complex numbers");
  refused(tutti_recv(world, out, (size_t)-1, TUTTI_F64, 0, 0, NULL, NULL), "recv of more than there is");
  refused(tutti_barrier(NULL, NULL, NULL), "barrier on NULL");
  refused(tutti_send(world, NULL, 1, TUTTI_F64, 0, 0, NULL, NULL), "send of NULL");
  refused(tutti_send(world, numbers, 1, TUTTI_F64, 1, 0, NULL, NULL), "send to nobody");
  refused(tutti_send(world, numbers, 1, TUTTI_F64, 0, -1, NULL, NULL), "a negative tag");
  refused(tutti_recv(world, NULL, 1, TUTTI_F64, 0, 0, NULL, NULL), "recv to NULL");
  refused(tutti_recv(world, out, 1, TUTTI_F64, -2, 0, NULL, NULL), "recv from nobody");
  refused(tutti_sendrecv(world, numbers, 1, 0, NULL, 1, 0, TUTTI_F64, 0, NULL, NULL), "sendrecv to NULL");
  refused(tutti_probe(world, 0, 0, NULL, NULL, NULL), "probe to NULL");
  refused(tutti_group_begin(NULL), "group_begin on NULL");
  refused(tutti_group_end(NULL, NULL), "group_end on NULL");
  ok(tutti_group_begin(world), "group_begin");
  refused(tutti_group_begin(world), "group_begin twice");
  ok(tutti_group_end(world, NULL), "an empty group");
  tutti_call call = TUTTI_CALL_INIT;
  call.timeout = -1;
  refused(tutti_barrier(world, &call, NULL), "a negative timeout");
  call.timeout = NAN;
  refused(tutti_barrier(world, &call, NULL), "no timeout");
}

static void requests(void) {
  int n = 0;
  size_t which = 0;
  tutti_request request, nobody = NULL;
  refused(tutti_test(NULL, &n), "test of NULL");
  refused(tutti_wait(NULL), "wait for NULL");
  refused(tutti_wait_for(NULL, 1, &n), "wait_for NULL");
  refused(tutti_wait_any(1, NULL, 1, &which), "wait_any of NULL");
  refused(tutti_wait_any(1, &nobody, 1, &which), "wait_any of a NULL");
  refused(tutti_wait_all(1, NULL), "wait_all of NULL");
  refused(tutti_request_cancel(NULL, &n), "cancel of NULL");
  refused(tutti_request_source(NULL, &n), "source of NULL");
  refused(tutti_request_eventfd(NULL, &n), "eventfd of NULL");
  refused(tutti_request_then(NULL, NULL, NULL), "then of NULL");
  ok(tutti_request_free(NULL), "free of NULL");
  ok(tutti_barrier(world, NULL, &request), "barrier");
  refused(tutti_wait_for(request, -1, &n), "a negative time");
  refused(tutti_test(request, NULL), "test to NULL");
  refused(tutti_request_then(request, NULL, NULL), "then without a function");
  refused(tutti_request_eventfd(request, NULL), "eventfd to NULL");
  ok(tutti_wait(request), "wait");
  refused(tutti_request_source(request, &n), "source of a barrier");
  ok(tutti_request_free(request), "free");
}

static void memory_and_library(void) {
  void* data;
  tutti_memory memory;
  const char* key = NULL;
  refused(tutti_allocate(NULL, 8, &data, &memory), "allocate on NULL");
  refused(tutti_allocate(world, 8, NULL, &memory), "allocate to NULL");
  refused(tutti_allocate(world, 8, &data, NULL), "allocate for nobody");
  refused(tutti_register(world, NULL, 8, &memory), "register NULL");
  refused(tutti_register(world, numbers, 8, NULL), "register for nobody");
  ok(tutti_memory_free(NULL), "free of NULL");
  refused(tutti_param_get(tutti_param_count(), &key, NULL, NULL), "a setting too many");
  ok(tutti_param_get(0, &key, NULL, NULL), "the first setting");
  check(strcmp(key, "log") == 0, "which is the log");
  check(tutti_check(TUTTI_VERSION) == TUTTI_OK, "this version");
  check(tutti_check(1000) == TUTTI_OK, "0.1.0, the first one");
  check(tutti_check(TUTTI_VERSION + 1) == TUTTI_UNSUPPORTED, "a newer one");
  check(tutti_check(2000000) == TUTTI_UNSUPPORTED, "another one");
  check(strcmp(tutti_result_name(77), "unknown") == 0, "no result");
}

static void in_a_child(void) {
  const pid_t child = fork();
  if (child == 0) {
    int n;
    const int right = tutti_comm_rank(world, &n) == TUTTI_INVALID &&
                      tutti_barrier(world, NULL, NULL) == TUTTI_INVALID && tutti_comm_free(world) == TUTTI_INVALID &&
                      strstr(tutti_last_error(), "forked") != NULL;
    _exit(right ? 0 : 1);
  }
  int status = -1;
  check(waitpid(child, &status, 0) == child && WIFEXITED(status) && WEXITSTATUS(status) == 0, "a child is refused");
}

static volatile int lines = 0;
static void count_line(int level, const char* text, void* user) {
  if (level == 4 && text != NULL && user == &lines) ++lines;
}

int main(void) {
  tutti_config config = TUTTI_CONFIG_INIT;
  config.settings = "log=debug\ntimeout=60";
  tutti_set_log(count_line, (void*)&lines);
  ok(tutti_comm_from_env(&config, &world), "from_env");
  meetings();
  sizes_of_structs();
  communicators();
  calls();
  requests();
  memory_and_library();
  in_a_child();
  double one = 1;
  ok(tutti_allreduce(world, NULL, &one, 1, TUTTI_F64, TUTTI_SUM, NULL, NULL), "it works after all of this");
  check(one == 1, "the sum of one");
  check(strcmp(tutti_last_error(), "") == 0, "no error after a success");
  ok(tutti_comm_free(world), "free");
  tutti_set_log(NULL, NULL);
  for (int i = 0; i < 1000; ++i) {
    ok(tutti_comm_from_env(NULL, &world), "one of a thousand");
    ok(tutti_comm_free(world), "its end");
  }
  printf("%d checks passed\n", checks);
  return 0;
}
