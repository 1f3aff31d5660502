// Ranks are threads, and connect in each way that C offers: a store of C functions, a unique id, an own allgather.
#include <pthread.h>
#include <stdint.h>
#include <time.h>

#include "check.h"

enum { ranks = 4, most_keys = 4096 };

// ---- a store of the program's own: a table under a mutex ----------------------------------------

typedef struct entry {
  char* key;
  char* value;
  size_t key_bytes, value_bytes;
} entry;
static entry table[most_keys];
static size_t entries = 0;
static int waits = 0, erased = 0;
static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t changed = PTHREAD_COND_INITIALIZER;

static char* copy_of(const void* data, size_t bytes) {
  char* const made = malloc(bytes + 1);
  memcpy(made, data, bytes);
  made[bytes] = '\0';
  return made;
}

static entry* look_up(const void* key, size_t bytes) {
  for (size_t i = 0; i < entries; ++i)
    if (table[i].key_bytes == bytes && memcmp(table[i].key, key, bytes) == 0 && table[i].value != NULL)
      return &table[i];
  return NULL;
}

static void put(const void* key, size_t key_bytes, const void* value, size_t bytes) {
  entry* at = look_up(key, key_bytes);
  if (at == NULL) {
    at = &table[entries++];
    at->key = copy_of(key, key_bytes);
    at->key_bytes = key_bytes;
  } else {
    free(at->value);
  }
  at->value = copy_of(value, bytes);
  at->value_bytes = bytes;
  pthread_cond_broadcast(&changed);
}

static int give(const entry* at, void* value, size_t* bytes) {
  if (at == NULL) return 1;
  if (at->value_bytes <= *bytes) memcpy(value, at->value, at->value_bytes);
  *bytes = at->value_bytes;
  return 0;
}

static int store_set(void* user, const void* key, size_t key_bytes, const void* value, size_t bytes) {
  check(user == table, "the caller's pointer");
  pthread_mutex_lock(&mutex);
  put(key, key_bytes, value, bytes);
  pthread_mutex_unlock(&mutex);
  return 0;
}

static int store_wait(void* user, const void* key, size_t key_bytes, void* value, size_t* bytes, int64_t milliseconds) {
  (void)user;
  struct timespec until;
  clock_gettime(CLOCK_REALTIME, &until);
  until.tv_sec += milliseconds / 1000 + 1;
  pthread_mutex_lock(&mutex);
  ++waits;
  int late = 0;
  while (look_up(key, key_bytes) == NULL && !late) late = pthread_cond_timedwait(&changed, &mutex, &until);
  const int answer = give(look_up(key, key_bytes), value, bytes);
  pthread_mutex_unlock(&mutex);
  return answer;
}

static int store_find(void* user, const void* key, size_t key_bytes, void* value, size_t* bytes) {
  (void)user;
  pthread_mutex_lock(&mutex);
  const int answer = give(look_up(key, key_bytes), value, bytes);
  pthread_mutex_unlock(&mutex);
  return answer;
}

static int store_add(void* user, const void* key, size_t key_bytes, int64_t amount, int64_t* now) {
  (void)user;
  char text[32];
  pthread_mutex_lock(&mutex);
  const entry* const at = look_up(key, key_bytes);
  *now = (at != NULL ? strtoll(at->value, NULL, 10) : 0) + amount;
  const int n = snprintf(text, sizeof text, "%lld", (long long)*now);
  put(key, key_bytes, text, (size_t)n);
  pthread_mutex_unlock(&mutex);
  return 0;
}

static int store_set_once(void* user, const void* key, size_t key_bytes, const void* value, size_t value_bytes,
                          void* got, size_t* bytes) {
  (void)user;
  pthread_mutex_lock(&mutex);
  if (look_up(key, key_bytes) == NULL) put(key, key_bytes, value, value_bytes);
  const int answer = give(look_up(key, key_bytes), got, bytes);
  pthread_mutex_unlock(&mutex);
  return answer;
}

static int store_erase(void* user, const void* key, size_t key_bytes) {
  (void)user;
  pthread_mutex_lock(&mutex);
  entry* const at = look_up(key, key_bytes);
  if (at != NULL) {
    free(at->value);
    at->value = NULL;
    at->key_bytes = 0;
    ++erased;
  }
  pthread_mutex_unlock(&mutex);
  return at == NULL;
}

// ---- an allgather of the program's own ----------------------------------------------------------

static char gathered[ranks][4096];
static pthread_barrier_t everyone;

static int gather(void* user, const void* mine, void* all, size_t bytes) {
  const int rank = *(const int*)user;
  if (bytes > sizeof gathered[0]) return 1;
  memcpy(gathered[rank], mine, bytes);
  pthread_barrier_wait(&everyone);
  for (int r = 0; r < ranks; ++r) memcpy((char*)all + (size_t)r * bytes, gathered[r], bytes);
  pthread_barrier_wait(&everyone);
  return 0;
}

// ---- the ranks ----------------------------------------------------------------------------------

static tutti_store store;
static tutti_unique_id id;

static void add_up(tutti_comm comm, int rank, int all, const char* how) {
  int size = 0;
  double value = rank + 1;
  ok(tutti_comm_size(comm, &size), how);
  check(size == all, how);
  ok(tutti_allreduce(comm, NULL, &value, 1, TUTTI_F64, TUTTI_SUM, NULL, NULL), how);
  check(value == all * (all + 1) / 2, how);
  ok(tutti_comm_free(comm), how);
}

static void* run(void* argument) {
  const int rank = *(int*)argument;
  tutti_config config = TUTTI_CONFIG_INIT;
  config.rank = rank;
  config.size = ranks;
  config.connect_timeout = 60;
  tutti_comm comm = NULL;
  // Runs four jobs one after the other in the same store; the third has fewer ranks.
  for (int again = 0; again < 4; ++again) {
    config.size = again == 2 ? ranks - 1 : ranks;
    if (rank >= config.size) continue;
    ok(tutti_comm_from_store(store, &config, &comm), "from a store");
    add_up(comm, rank, config.size, "by a store");
  }
  ok(tutti_comm_from_unique_id(&id, &config, &comm), "from an id");
  add_up(comm, rank, ranks, "by an id");
  tutti_oob oob = {sizeof oob, argument, rank, ranks, gather};
  ok(tutti_comm_from_oob(&oob, NULL, &comm), "from an allgather");
  add_up(comm, rank, ranks, "by an allgather");
  return NULL;
}

int main(void) {
  tutti_store_ops ops = {sizeof ops, table, store_set, store_wait, store_find, store_add, store_set_once, store_erase};
  ok(tutti_store_create(&ops, &store), "store");
  ok(tutti_get_unique_id(&id), "id");
  pthread_barrier_init(&everyone, NULL, ranks);
  pthread_t threads[ranks];
  int numbers[ranks];
  for (int r = 0; r < ranks; ++r) {
    numbers[r] = r;
    check(pthread_create(&threads[r], NULL, run, &numbers[r]) == 0, "a thread");
  }
  for (int r = 0; r < ranks; ++r) pthread_join(threads[r], NULL);
  ok(tutti_store_free(store), "free");
  check(waits > 0, "somebody waited for a key");
  for (size_t i = 0; i < entries; ++i) {
    free(table[i].key);
    free(table[i].value);
  }
  pthread_barrier_destroy(&everyone);
  printf("%d ranks met by a store of %zu keys, by an id and by an allgather\n", ranks, entries);
  return 0;
}
