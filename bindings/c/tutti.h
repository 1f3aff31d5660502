// The C interface of tutti, for C11, C++98 and whatever can call C. docs/book/21-c.md shows it at work.
//
// Every function that can fail returns a tutti_result and writes its out-parameters on success only; tutti_last_error()
// says in a sentence what was wrong and what to do next. Structs begin with their size: initialise them by their macro.
// Handles and buffers stay the caller's to release; what is given to a call is borrowed until the call is done.
// Threads: any; the order of calls on one communicator is the caller's duty, the same on all ranks. In a forked child
// every call on a handle of the parent returns TUTTI_INVALID.
#pragma once

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif
#pragma GCC visibility push(default)

/// Major * 1000000 + minor * 1000 + patch of this header.
#define TUTTI_VERSION 1000

/// What a function returns. The values never change.
typedef int tutti_result;
enum {
  TUTTI_OK = 0,
  TUTTI_PEER_LOST = 1,    ///< a rank died, or its host fell silent
  TUTTI_MISMATCH = 2,     ///< ranks called different collectives, or with other arguments
  TUTTI_TIMEOUT = 3,      ///< the deadline passed
  TUTTI_ABORTED = 4,      ///< somebody aborted or cancelled
  TUTTI_UNSUPPORTED = 5,  ///< nothing available can do this call
  TUTTI_INVALID = 6,      ///< an argument is wrong
  TUTTI_RESOURCE = 7,     ///< memory, descriptors, space
  TUTTI_PROTOCOL = 8,     ///< a peer sent what this version does not understand
  TUTTI_INTERNAL = 9,     ///< a defect in tutti
  TUTTI_IN_PROGRESS = 100
};

/// The type of an element. BOOL is a byte of 0 or 1 (sum is or, prod is and); C64 and C128 are a real and an imaginary
/// part of 32 and 64 bits (sum, avg and premul_sum); BYTES is what is only moved, and its count is in bytes.
typedef int tutti_dtype;
enum {
  TUTTI_I8 = 0,
  TUTTI_U8 = 1,
  TUTTI_I16 = 2,
  TUTTI_I32 = 3,
  TUTTI_I64 = 4,
  TUTTI_F16 = 5,
  TUTTI_BF16 = 6,
  TUTTI_F32 = 7,
  TUTTI_F64 = 8,
  TUTTI_U16 = 9,
  TUTTI_U32 = 10,
  TUTTI_U64 = 11,
  TUTTI_BOOL = 100,
  TUTTI_C64 = 101,
  TUTTI_C128 = 102,
  TUTTI_BYTES = 110
};

/// How contributions are combined. AVG and PREMUL_SUM want floating point, BAND, BOR and BXOR integers.
typedef int tutti_op;
enum {
  TUTTI_SUM = 0,
  TUTTI_AVG = 1,
  TUTTI_PROD = 2,
  TUTTI_MIN = 3,
  TUTTI_MAX = 4,
  TUTTI_BAND = 5,
  TUTTI_BOR = 6,
  TUTTI_BXOR = 7,
  TUTTI_PREMUL_SUM = 8
};

/// As `from`: whichever rank sends first.
enum { TUTTI_ANY_RANK = -1 };

/// As `in`: the input lies where the result will be. NULL says the same.
#define TUTTI_IN_PLACE ((void*)0)

typedef struct tutti_comm_s* tutti_comm;
typedef struct tutti_request_s* tutti_request;
typedef struct tutti_store_s* tutti_store;
typedef struct tutti_memory_s* tutti_memory;

// ---- versions, errors, settings, the log --------------------------------------------------------

/// Of the library. NULL leaves a number out. Returns major * 1000000 + minor * 1000 + patch.
int tutti_version(int* major, int* minor, int* patch);
const char* tutti_version_string(void);
/// TUTTI_OK where a program compiled with TUTTI_VERSION = `header_version` may use this library: equal major (below 1.0
/// also minor) numbers, and the library is not older.
tutti_result tutti_check(int header_version);
/// "ok", "peer_lost", ...; "unknown" for any other number.
const char* tutti_result_name(tutti_result result);
/// The sentence of this thread's last failure; "" after a success. Valid until the thread's next call.
const char* tutti_last_error(void);

/// The settings (docs/book/5-settings.md), with the values that the environment gives them. NULL where not wanted.
size_t tutti_param_count(void);
tutti_result tutti_param_get(size_t index, const char** key, const char** value, const char** meaning);

/// From here on log lines go to `fn` instead of stderr; NULL: stderr again. Levels: 1 error, 2 warning, 3 info, 4
/// debug. `fn` may be called from any of the library's threads, several at a time, and must not call tutti.
void tutti_set_log(void (*fn)(int level, const char* text, void* user), void* user);

// ---- making a communicator ----------------------------------------------------------------------

/// Who this process is. Zero and NULL mean the standard value. For tutti_comm_from_env, only the times and `settings`
/// count. `job` and `secret`: equal on all ranks. `settings`: "key=value;key=value"; where the text has line feeds,
/// these separate instead of semicolons.
typedef struct tutti_config {
  size_t struct_size;
  double timeout;          ///< seconds from a call's start to its deadline; infinite: none
  double connect_timeout;  ///< seconds to find and connect the other ranks
  int rank, size;
  int local_rank, local_size;  ///< among the ranks of this host; size 0: not known
  const char *job, *secret, *settings;
} tutti_config;
#define TUTTI_CONFIG_INIT \
  { sizeof(tutti_config), 0, 0, 0, 1, 0, 0, 0, 0, 0 }

/// A store of the caller's own: keys and values of any bytes. Each function returns 0 where it did it, 1 where the key
/// is not there (wait: until the time was over), anything else on failure. `erase` may be NULL. They may be called from
/// any thread, several at a time.
///
/// A value is written to `value`, which holds *bytes bytes, and *bytes becomes its length. A value that is longer is
/// not written: then the function is called again with more room.
typedef struct tutti_store_ops {
  size_t struct_size;
  void* user;
  int (*set)(void* user, const void* key, size_t key_bytes, const void* value, size_t value_bytes);
  /// Waits until somebody sets the key, at most so many milliseconds.
  int (*wait)(void* user, const void* key, size_t key_bytes, void* value, size_t* bytes, int64_t milliseconds);
  int (*find)(void* user, const void* key, size_t key_bytes, void* value, size_t* bytes);
  /// Adds to a counter that starts at 0; *now becomes its new value. Atomic.
  int (*add)(void* user, const void* key, size_t key_bytes, int64_t amount, int64_t* now);
  /// Sets the key where it is unset; `got` becomes the value that it has then. Atomic; may be repeated.
  int (*set_once)(void* user, const void* key, size_t key_bytes, const void* value, size_t value_bytes, void* got,
                  size_t* bytes);
  int (*erase)(void* user, const void* key, size_t key_bytes);
} tutti_store_ops;

/// Ranks that can talk already: `allgather` puts everyone's `bytes` bytes, in rank order, into `all`; 0 on success.
typedef struct tutti_oob {
  size_t struct_size;
  void* user;
  int rank, size;
  int (*allgather)(void* user, const void* mine, void* all, size_t bytes);
} tutti_oob;

/// Text that one rank makes and the program brings to the others.
typedef struct tutti_unique_id {
  char bytes[256];
} tutti_unique_id;

/// The functions of `ops` are called until tutti_store_free and the end of every communicator made with it.
tutti_result tutti_store_create(const tutti_store_ops* ops, tutti_store* store);
/// "tcp://HOST:PORT" or "file:///FOLDER". `secret` NULL: none.
tutti_result tutti_store_open(const char* url, const char* secret, tutti_store* store);
tutti_result tutti_store_free(tutti_store store);

/// Serves a store in this process, on all of its addresses, to those who have the id. The first communicator that this
/// process makes with the id takes it over; without one it goes with the first id that is made after 5 minutes.
tutti_result tutti_get_unique_id(tutti_unique_id* id);

/// From the environment of `tutti run`, torchrun, mpirun or srun; or alone. `config` may be NULL.
tutti_result tutti_comm_from_env(const tutti_config* config, tutti_comm* comm);
/// These three are collective: all `size` ranks call, and wait for one another.
tutti_result tutti_comm_from_store(tutti_store store, const tutti_config* config, tutti_comm* comm);
tutti_result tutti_comm_from_unique_id(const tutti_unique_id* id, const tutti_config* config, tutti_comm* comm);
/// `config` may be NULL; its rank and size do not count.
tutti_result tutti_comm_from_oob(const tutti_oob* oob, const tutti_config* config, tutti_comm* comm);

// ---- communicators ------------------------------------------------------------------------------

tutti_result tutti_comm_rank(tutti_comm comm, int* rank);
tutti_result tutti_comm_size(tutti_comm comm, int* size);
/// The world rank of rank `i`.
tutti_result tutti_comm_world_rank(tutti_comm comm, int i, int* rank);

/// Groups, each a collective of `comm` but for tutti_comm_group, which its members call alone. A rank that is no member
/// gets TUTTI_OK and NULL. split: ranks of equal `color`, by (key, rank); a negative colour joins none.
tutti_result tutti_comm_split(tutti_comm comm, int color, int key, tutti_comm* made);
tutti_result tutti_comm_subgroup(tutti_comm comm, const int* ranks, int n, tutti_comm* made);
tutti_result tutti_comm_group(tutti_comm comm, const int* ranks, int n, const char* name, tutti_comm* made);
tutti_result tutti_comm_dup(tutti_comm comm, tutti_comm* made);
tutti_result tutti_comm_node(tutti_comm comm, tutti_comm* made);     ///< the ranks of this host
tutti_result tutti_comm_across(tutti_comm comm, tutti_comm* made);   ///< those with this rank's place on their hosts
tutti_result tutti_comm_leaders(tutti_comm comm, tutti_comm* made);  ///< the first rank of every host

/// What reaches rank `i`: "shm". Text is cut to fit.
tutti_result tutti_comm_routes(tutti_comm comm, int i, char* text, size_t text_bytes);
/// Who would do a call of this kind ("allreduce"), `count` elements in a block, and why.
tutti_result tutti_comm_explain(tutti_comm comm, const char* kind, size_t count, tutti_dtype dtype, tutti_op op,
                                char* text, size_t text_bytes);
/// *code is TUTTI_OK while the communicator is alive; else why it failed, about which world rank (-1: none), in words.
/// `culprit` and `text` may be NULL.
tutti_result tutti_comm_error(tutti_comm comm, tutti_result* code, int* culprit, char* text, size_t text_bytes);
/// Ends everything in flight, on all ranks, with TUTTI_ABORTED. Any thread. `why` may be NULL.
tutti_result tutti_comm_abort(tutti_comm comm, const char* why);
/// After the requests of the communicator are freed. NULL is let pass.
tutti_result tutti_comm_free(tutti_comm comm);

// ---- calls --------------------------------------------------------------------------------------

/// Beside the operands of a call; NULL in place of it means the standard values.
typedef struct tutti_call {
  size_t struct_size;
  double timeout;         ///< seconds; 0: the communicator's; infinite: none
  double factor;          ///< of TUTTI_PREMUL_SUM
  const char* algorithm;  ///< "ring", "gloo/bcube": instead of the rules' choice; equal on all ranks
  int device;             ///< of the buffers; -1: host memory
  void* stream;           ///< a cudaStream_t after which the call comes, where has_stream is not 0
  int has_stream;
} tutti_call;
#define TUTTI_CALL_INIT \
  { sizeof(tutti_call), 0, 1, 0, -1, 0, 0 }

// `request` NULL: the call returns when it is done. Else it has started, and *request must be freed. Counts are
// elements; `count` is of one rank's block where the other buffer has a block for each rank. In place, allgather and
// gather (at the root) take this rank's block of `out`, reduce_scatter leaves its result in this rank's block of `out`,
// which then holds all blocks, and scatter with `out` NULL at the root leaves the root's block where it is.

tutti_result tutti_allreduce(tutti_comm comm, const void* in, void* out, size_t count, tutti_dtype dtype, tutti_op op,
                             const tutti_call* call, tutti_request* request);
tutti_result tutti_reduce(tutti_comm comm, const void* in, void* out, size_t count, tutti_dtype dtype, tutti_op op,
                          int root, const tutti_call* call, tutti_request* request);
tutti_result tutti_reduce_scatter(tutti_comm comm, const void* in, void* out, size_t count, tutti_dtype dtype,
                                  tutti_op op, const tutti_call* call, tutti_request* request);
tutti_result tutti_reduce_scatterv(tutti_comm comm, const void* in, void* out, const size_t* counts, tutti_dtype dtype,
                                   tutti_op op, const tutti_call* call, tutti_request* request);
tutti_result tutti_broadcast(tutti_comm comm, void* data, size_t count, tutti_dtype dtype, int root,
                             const tutti_call* call, tutti_request* request);
tutti_result tutti_allgather(tutti_comm comm, const void* in, void* out, size_t count, tutti_dtype dtype,
                             const tutti_call* call, tutti_request* request);
/// counts[i] elements come from rank i; `count` is this rank's own.
tutti_result tutti_allgatherv(tutti_comm comm, const void* in, size_t count, void* out, const size_t* counts,
                              tutti_dtype dtype, const tutti_call* call, tutti_request* request);
tutti_result tutti_gather(tutti_comm comm, const void* in, void* out, size_t count, tutti_dtype dtype, int root,
                          const tutti_call* call, tutti_request* request);
/// `counts` are looked at at the root only, here and in scatterv.
tutti_result tutti_gatherv(tutti_comm comm, const void* in, size_t count, void* out, const size_t* counts,
                           tutti_dtype dtype, int root, const tutti_call* call, tutti_request* request);
tutti_result tutti_scatter(tutti_comm comm, const void* in, void* out, size_t count, tutti_dtype dtype, int root,
                           const tutti_call* call, tutti_request* request);
tutti_result tutti_scatterv(tutti_comm comm, const void* in, const size_t* counts, void* out, size_t count,
                            tutti_dtype dtype, int root, const tutti_call* call, tutti_request* request);
/// `count` elements from every rank to every rank.
tutti_result tutti_alltoall(tutti_comm comm, const void* in, void* out, size_t count, tutti_dtype dtype,
                            const tutti_call* call, tutti_request* request);
tutti_result tutti_alltoallv(tutti_comm comm, const void* in, const size_t* in_counts, void* out,
                             const size_t* out_counts, tutti_dtype dtype, const tutti_call* call,
                             tutti_request* request);
tutti_result tutti_barrier(tutti_comm comm, const tutti_call* call, tutti_request* request);

tutti_result tutti_send(tutti_comm comm, const void* data, size_t count, tutti_dtype dtype, int to, int tag,
                        const tutti_call* call, tutti_request* request);
/// `from` may be TUTTI_ANY_RANK; tutti_request_source tells whose message it was.
tutti_result tutti_recv(tutti_comm comm, void* data, size_t count, tutti_dtype dtype, int from, int tag,
                        const tutti_call* call, tutti_request* request);
tutti_result tutti_sendrecv(tutti_comm comm, const void* in, size_t in_count, int to, void* out, size_t out_count,
                            int from, tutti_dtype dtype, int tag, const tutti_call* call, tutti_request* request);
/// What has come and no receive has met. `from` may be TUTTI_ANY_RANK. `rank` and `bytes` may be NULL.
tutti_result tutti_probe(tutti_comm comm, int from, int tag, int* found, int* rank, size_t* bytes);

/// Calls of this thread on `comm` between the two are collected (their `request` must be NULL) and started together,
/// small neighbours packed as one. They have one tutti_call but for `factor`.
tutti_result tutti_group_begin(tutti_comm comm);
tutti_result tutti_group_end(tutti_comm comm, tutti_request* request);

// ---- requests -----------------------------------------------------------------------------------

/// These return how the call ended where it has. `done` is 1 or 0.
tutti_result tutti_test(tutti_request request, int* done);
tutti_result tutti_wait(tutti_request request);
tutti_result tutti_wait_for(tutti_request request, double seconds, int* done);
/// *which: one that is done, failed or not; `n` when the time was over. 0 seconds only looks.
tutti_result tutti_wait_any(size_t n, const tutti_request* requests, double seconds, size_t* which);
/// Waits for all; the first failure.
tutti_result tutti_wait_all(size_t n, const tutti_request* requests);
/// Takes back a receive that has met no message (then *cancelled is 1, and it ends with TUTTI_ABORTED).
tutti_result tutti_request_cancel(tutti_request request, int* cancelled);
/// Of a receive that is done. TUTTI_IN_PROGRESS where it is not.
tutti_result tutti_request_source(tutti_request request, int* rank);
/// A descriptor that is readable once the call is done; closed with the request.
tutti_result tutti_request_eventfd(tutti_request request, int* fd);
/// `fn` is called once, on a thread of the library, with how the call ended. It must not wait for tutti, and may come
/// after the request was freed.
tutti_result tutti_request_then(tutti_request request, void (*fn)(tutti_result result, void* user), void* user);
/// Waits where the call is not done. NULL is let pass.
tutti_result tutti_request_free(tutti_request request);

// ---- memory -------------------------------------------------------------------------------------

/// Zeroed memory that the other ranks of the host read and write in place. Local.
tutti_result tutti_allocate(tutti_comm comm, size_t bytes, void** data, tutti_memory* memory);
/// Makes memory of the caller's ready for calls on any part of it, as long as *memory lives. Local.
tutti_result tutti_register(tutti_comm comm, void* data, size_t bytes, tutti_memory* memory);
/// NULL is let pass.
tutti_result tutti_memory_free(tutti_memory memory);

#pragma GCC visibility pop
#ifdef __cplusplus
}
#endif
