// Ranks are processes. One is killed, the others agree on who is left and shrink to them, and then admit a process that
// has been started with TUTTI_JOIN.
#include <signal.h>
#include <stdint.h>
#include <sys/wait.h>
#include <unistd.h>

#include "check.h"

enum { ranks = 3, victim = 1, processes = ranks + 1, limit = 60 };

static char folder[] = "/tmp/tutti_survival.XXXXXX";

static void set(const char* name, const char* value) { check(setenv(name, value, 1) == 0, name); }

static int rank_in(tutti_comm comm) {
  int rank = -1;
  ok(tutti_comm_rank(comm, &rank), "rank");
  return rank;
}

static uint64_t epoch_of(tutti_comm comm) {
  uint64_t epoch = 0;
  ok(tutti_comm_epoch(comm, &epoch), "epoch");
  return epoch;
}

/// Checks that a communicator has this size, and that its sums are right.
static void use(tutti_comm comm, int wanted, const char* which) {
  int size = 0;
  ok(tutti_comm_size(comm, &size), which);
  check(size == wanted, which);
  int64_t value = rank_in(comm) + 1;
  ok(tutti_allreduce(comm, NULL, &value, 1, TUTTI_I64, TUTTI_SUM, NULL, NULL), which);
  check(value == size * (size + 1) / 2, which);
}

static void until_lost(tutti_comm world) {
  tutti_result code = TUTTI_OK;
  int culprit = -1;
  while (code == TUTTI_OK) code = tutti_barrier(world, NULL, NULL);
  check(code == TUTTI_PEER_LOST, "a lost rank ends the call");
  ok(tutti_comm_error(world, &code, &culprit, NULL, 0), "error");
  check(code == TUTTI_PEER_LOST && culprit == victim, "the error names the dead rank");
}

static void agree(tutti_comm world, int rank) {
  uint64_t bits = rank == 0 ? 6 : 12;
  int members[ranks] = {-1, -1, -1}, n = 0;
  ok(tutti_comm_agree(world, &bits, members, &n), "agree");
  check(bits == 4, "the and of the bits");
  check(n == ranks - 1 && members[0] == 0 && members[1] == 2 && members[2] == -1, "who is left");
}

static void be_rank(int rank) {
  char number[8];
  snprintf(number, sizeof number, "%d", rank);
  set("TUTTI_RANK", number);
  snprintf(number, sizeof number, "%d", ranks);
  set("TUTTI_SIZE", number);
  tutti_comm world = NULL, left = NULL, same = NULL, grown = NULL;
  ok(tutti_comm_from_env(NULL, &world), "from_env");
  if (rank == victim) {
    ok(tutti_barrier(world, NULL, NULL), "the only barrier of this rank");
    raise(SIGKILL);
  }
  until_lost(world);
  agree(world, rank);
  ok(tutti_comm_shrink(world, &left), "shrink");
  use(left, ranks - 1, "those that are left");
  ok(tutti_comm_grow(left, 0, 0, &same), "grow by nobody");
  use(same, ranks - 1, "the same ranks");
  check(epoch_of(same) == 0, "the first epoch");
  int waiting = 0;
  while (waiting == 0) ok(tutti_comm_waiting(left, &waiting), "waiting");
  check(waiting == 1, "one process waits");
  use(left, ranks - 1, "all have seen it");
  ok(tutti_comm_grow(left, 1, limit / 2, &grown), "grow");
  use(grown, ranks, "the new world");
  check(rank_in(grown) == rank_in(left) && epoch_of(grown) > 0, "the same rank in a new epoch");
  use(left, ranks - 1, "the old communicator");
  ok(tutti_comm_free(grown), "free");
  ok(tutti_comm_free(same), "free");
  ok(tutti_comm_free(left), "free");
  ok(tutti_comm_free(world), "free");
}

static void join(void) {
  set("TUTTI_JOIN", "1");
  tutti_comm world = NULL;
  ok(tutti_comm_from_env(NULL, &world), "join");
  check(rank_in(world) == ranks - 1 && epoch_of(world) > 0, "the last rank of a new epoch");
  use(world, ranks, "the world that it has joined");
  ok(tutti_comm_free(world), "free");
}

int main(void) {
  char store[64];
  check(mkdtemp(folder) != NULL, "a folder");
  snprintf(store, sizeof store, "file://%s/store", folder);
  set("TUTTI_STORE", store);
  set("TUTTI_JOB", "survival");
  set("TUTTI_SECRET", "secret");
  set("TUTTI_TIMEOUT", "50");
  pid_t started[processes];
  for (int i = 0; i < processes; ++i) {
    started[i] = fork();
    if (started[i] != 0) continue;
    alarm(limit);
    if (i < ranks) be_rank(i);
    if (i == ranks) join();
    _exit(0);
  }
  int failed = 0;
  for (int i = 0; i < processes; ++i) {
    int status = -1;
    check(started[i] > 0 && waitpid(started[i], &status, 0) == started[i], "a process");
    failed += i == victim ? !(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL) : status != 0;
  }
  char command[128];
  snprintf(command, sizeof command, "rm -r %s", folder);
  check(system(command) == 0, "the folder is removed");
  check(failed == 0, "all processes but the killed one succeed");
  printf("%d ranks went on without rank %d, and admitted another process\n", ranks - 1, victim);
  return 0;
}
