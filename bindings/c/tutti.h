// The C interface of tutti, for C11, C++98 and languages that can call C. docs/book/21-c.md has examples.
//
// Errors: every function that can fail returns a tutti_result and writes its out-parameters on success only.
// tutti_last_error() returns a sentence with the problem and what to do about it.
// Structs: the first member is the size of the struct; initialise a struct with its macro.
// Ownership: the caller frees handles and buffers. Arguments of a call are borrowed until the call is done.
// Threads: any thread may call. The caller makes sure that all ranks issue the calls on one communicator in the same
// order.
// Fork: in a forked child, every call on a handle of the parent process returns TUTTI_INVALID.
#pragma once

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif
#pragma GCC visibility push(default)

/// Major * 1000000 + minor * 1000 + patch of this header.
#define TUTTI_VERSION 2000

/// Result of a function. The values never change.
typedef int tutti_result;
enum {
  TUTTI_OK = 0,
  TUTTI_PEER_LOST = 1,    ///< a rank died or its host stopped responding
  TUTTI_MISMATCH = 2,     ///< ranks called different collectives, or with different arguments
  TUTTI_TIMEOUT = 3,      ///< the deadline passed
  TUTTI_ABORTED = 4,      ///< a rank aborted or cancelled
  TUTTI_UNSUPPORTED = 5,  ///< no backend supports this call
  TUTTI_INVALID = 6,      ///< an argument is wrong
  TUTTI_RESOURCE = 7,     ///< out of memory, descriptors or space
  TUTTI_PROTOCOL = 8,     ///< a peer sent data that this version does not understand
  TUTTI_INTERNAL = 9,     ///< a bug in tutti
  TUTTI_IN_PROGRESS = 100
};

/// Element types. BOOL is a byte of 0 or 1 (sum is logical or, prod is logical and). C64 and C128 are complex numbers
/// of two 32-bit or 64-bit parts (only sum, avg and premul_sum). BYTES has no reductions, and its count is in bytes.
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

/// Reduction operators. AVG and PREMUL_SUM need floating-point or complex types. BAND, BOR and BXOR need integers.
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

/// Value of `from` that accepts a message from any rank.
enum { TUTTI_ANY_RANK = -1 };

/// Value of `in` for a call in place: the input is in the output buffer. NULL means the same.
#define TUTTI_IN_PLACE ((void*)0)

typedef struct tutti_comm_s* tutti_comm;
typedef struct tutti_request_s* tutti_request;
typedef struct tutti_store_s* tutti_store;
typedef struct tutti_memory_s* tutti_memory;

// ---- versions, errors, settings, the log --------------------------------------------------------

/// The version of the library; pointers may be NULL. Returns major * 1000000 + minor * 1000 + patch.
int tutti_version(int* major, int* minor, int* patch);
const char* tutti_version_string(void);
/// TUTTI_OK if a program that was compiled with TUTTI_VERSION = `header_version` can use this library: the major
/// numbers are equal, and the library is not older.
tutti_result tutti_check(int header_version);
/// "ok", "peer_lost", ...; "unknown" for a number that is not a tutti_result.
const char* tutti_result_name(tutti_result result);
/// The error text of this thread's last call; "" if that call succeeded. Valid until the thread's next call.
const char* tutti_last_error(void);

/// Lists the settings (docs/book/5-settings.md) with their values from the environment. Pointers may be NULL.
size_t tutti_param_count(void);
tutti_result tutti_param_get(size_t index, const char** key, const char** value, const char** meaning);

/// Sends log lines to `fn` instead of stderr; NULL restores stderr. Levels: 1 error, 2 warning, 3 info, 4 debug. `fn`
/// may be called by any of the library's threads, several at once, and must not call tutti.
void tutti_set_log(void (*fn)(int level, const char* text, void* user), void* user);

// ---- making a communicator ----------------------------------------------------------------------

/// The identity and settings of this process; 0 and NULL mean the default. tutti_comm_from_env ignores the ranks and
/// sizes. `job` and `secret` must be equal on all ranks. `settings` is "key=value;key=value"; if the text contains
/// newlines, they separate the entries instead of semicolons.
typedef struct tutti_config {
  size_t struct_size;
  double timeout;          ///< seconds from the start of a call to its deadline; infinity: no deadline
  double connect_timeout;  ///< seconds to find and connect to the other ranks
  int rank, size;
  int local_rank, local_size;  ///< among the ranks of this host; size 0: unknown
  const char *job, *secret, *settings;
} tutti_config;
#define TUTTI_CONFIG_INIT \
  { sizeof(tutti_config), 0, 0, 0, 1, 0, 0, 0, 0, 0 }

/// A key-value store implemented by the caller; keys and values are any bytes. Each function returns 0 on success, 1 if
/// the key does not exist (wait: when the time is over), and another value on failure. `erase` may be NULL. Several
/// threads of the library may call the functions at once.
///
/// A function that returns a value writes it to a buffer of *bytes bytes and sets *bytes to the value's length. If the
/// value is longer than the buffer, it only sets *bytes, and the library calls it again with a larger buffer.
typedef struct tutti_store_ops {
  size_t struct_size;
  void* user;
  int (*set)(void* user, const void* key, size_t key_bytes, const void* value, size_t value_bytes);
  /// Blocks until the key is set, at most `milliseconds`.
  int (*wait)(void* user, const void* key, size_t key_bytes, void* value, size_t* bytes, int64_t milliseconds);
  int (*find)(void* user, const void* key, size_t key_bytes, void* value, size_t* bytes);
  /// Adds `amount` to a counter, which starts at 0, and sets *now to its new value. Atomic.
  int (*add)(void* user, const void* key, size_t key_bytes, int64_t amount, int64_t* now);
  /// Sets the key if it is not set, and returns the key's value in `got`. Atomic; may be called again for the same key.
  int (*set_once)(void* user, const void* key, size_t key_bytes, const void* value, size_t value_bytes, void* got,
                  size_t* bytes);
  int (*erase)(void* user, const void* key, size_t key_bytes);
} tutti_store_ops;

/// An allgather that the program provides: gathers `bytes` bytes from each rank into `all`, in rank order. Returns 0 on
/// success.
typedef struct tutti_oob {
  size_t struct_size;
  void* user;
  int rank, size;
  int (*allgather)(void* user, const void* mine, void* all, size_t bytes);
} tutti_oob;

/// An opaque text. One rank creates it, and the program sends it to the other ranks, as with ncclUniqueId.
typedef struct tutti_unique_id {
  char bytes[256];
} tutti_unique_id;

/// Makes a store of the caller's functions. They may be called until tutti_store_free has been called and every
/// communicator made from the store has been freed.
tutti_result tutti_store_create(const tutti_store_ops* ops, tutti_store* store);
/// Opens "tcp://HOST:PORT" or "file:///FOLDER". `secret` may be NULL.
tutti_result tutti_store_open(const char* url, const char* secret, tutti_store* store);
tutti_result tutti_store_free(tutti_store store);

/// Starts a store in this process, on all of its addresses, for ranks that have the id. The first communicator that
/// this process makes from the id owns the store. If this process makes none, the first call of this function after 5
/// minutes stops the store.
tutti_result tutti_get_unique_id(tutti_unique_id* id);

/// Uses the environment of `tutti run`, torchrun, mpirun or srun; without a launcher, makes a communicator of size 1.
/// `config` may be NULL. Collective over the job; blocks.
tutti_result tutti_comm_from_env(const tutti_config* config, tutti_comm* comm);
/// The next three functions are collective: all `size` ranks call them, and block until all ranks are connected.
tutti_result tutti_comm_from_store(tutti_store store, const tutti_config* config, tutti_comm* comm);
tutti_result tutti_comm_from_unique_id(const tutti_unique_id* id, const tutti_config* config, tutti_comm* comm);
/// `config` may be NULL; its rank and size are ignored.
tutti_result tutti_comm_from_oob(const tutti_oob* oob, const tutti_config* config, tutti_comm* comm);

// ---- communicators ------------------------------------------------------------------------------

tutti_result tutti_comm_rank(tutti_comm comm, int* rank);
tutti_result tutti_comm_size(tutti_comm comm, int* size);
/// The world rank of rank `i`.
tutti_result tutti_comm_world_rank(tutti_comm comm, int i, int* rank);

/// Makes communicators. These are collective over `comm`, except tutti_comm_group, which only its members call. A rank
/// that is not a member gets TUTTI_OK and NULL. split: one communicator per `color`, ordered by (key, rank); a negative
/// color joins none.
tutti_result tutti_comm_split(tutti_comm comm, int color, int key, tutti_comm* made);
tutti_result tutti_comm_subgroup(tutti_comm comm, const int* ranks, int n, tutti_comm* made);
tutti_result tutti_comm_group(tutti_comm comm, const int* ranks, int n, const char* name, tutti_comm* made);
tutti_result tutti_comm_dup(tutti_comm comm, tutti_comm* made);
tutti_result tutti_comm_node(tutti_comm comm, tutti_comm* made);     ///< ranks on this host
tutti_result tutti_comm_across(tutti_comm comm, tutti_comm* made);   ///< ranks with the same local index
tutti_result tutti_comm_leaders(tutti_comm comm, tutti_comm* made);  ///< the first rank of each host

// Survival. The next three functions are calls of the ranks that are left after others have died. Each blocks.
// tutti_comm_agree and tutti_comm_shrink work on a communicator that has failed. The launcher must not end the job when
// a rank dies (`tutti run --elastic` or `--keep-going`).

/// The ranks that are left agree on the bitwise and of their *bits and on who is left. Each of them calls it the same
/// number of times. Sets *bits to the result, `members` to the ranks of `comm` that are left, in ascending order, and
/// *n to their number; all three are equal on all ranks. `members` has room for as many ranks as `comm` has; `members`
/// and `n` may be NULL. Not to be called by two threads at once. TUTTI_TIMEOUT: not all that are left called within the
/// communicator's timeout; the next call continues the same agreement with the same bits. TUTTI_PEER_LOST: the other
/// ranks hold this rank for lost. If others call tutti_comm_shrink or tutti_comm_grow meanwhile, the communicator's
/// failure, or TUTTI_MISMATCH.
tutti_result tutti_comm_agree(tutti_comm comm, uint64_t* bits, int* members, int* n);
/// Makes a communicator of the ranks that are left, in their old order. Agrees on them first, with the errors of
/// tutti_comm_agree. If a rank dies afterwards, the new communicator fails, and can be shrunk in turn.
tutti_result tutti_comm_shrink(tutti_comm comm, tutti_comm* made);
/// Admits processes that wait to join the job: those that `tutti run --elastic` has started for dead ranks, or that
/// somebody has started with TUTTI_JOIN=1 and the job's TUTTI_STORE, TUTTI_JOB and TUTTI_SECRET. They call
/// tutti_comm_from_env, and get the new communicator there. The ranks of `comm` keep their order, and the newcomers
/// follow. Collective over `comm`, which must work; all ranks pass the same arguments. Admits at most `most`, and waits
/// at most `patience` seconds until so many are there. If nobody comes, *made is another handle to the communicator
/// `comm`. The caller frees *made in both cases; `comm` remains usable. TUTTI_UNSUPPORTED: the job has no store in
/// which processes could wait. Only jobs that tutti_comm_from_env has made can have one.
tutti_result tutti_comm_grow(tutti_comm comm, int most, double patience, tutti_comm* made);
/// Sets *n to the number of processes that wait for tutti_comm_grow; 0 if the job has no store. Local; asks the store.
tutti_result tutti_comm_waiting(tutti_comm comm, int* n);
/// Sets *epoch to the number of the communicator's epoch. It is 0 for the job's first ranks, and higher after each
/// tutti_comm_grow that admits processes. Local.
tutti_result tutti_comm_epoch(tutti_comm comm, uint64_t* epoch);

/// The transport that reaches rank `i`: "shm". Text is truncated to fit.
tutti_result tutti_comm_routes(tutti_comm comm, int i, char* text, size_t text_bytes);
/// The backend and algorithm that a call of this kind ("allreduce") with `count` elements per block would use, and why.
tutti_result tutti_comm_explain(tutti_comm comm, const char* kind, size_t count, tutti_dtype dtype, tutti_op op,
                                char* text, size_t text_bytes);
/// The communicator's name in reports. `name` is copied; 31 bytes of it are shown.
tutti_result tutti_comm_set_name(tutti_comm comm, const char* name);
/// What holds up the job of this rank, which rank is to blame and in which call, as one paragraph: what `tutti doctor`
/// says. A call that has run for `patience` seconds counts as stuck. Local; any thread. Text is truncated to fit.
tutti_result tutti_comm_doctor(tutti_comm comm, double patience, char* text, size_t text_bytes);
/// Sets *code to TUTTI_OK while the communicator works, otherwise to the code of its first failure, *culprit to the
/// world rank that the failure concerns (-1: none), and `text` to its text. `culprit` and `text` may be NULL.
tutti_result tutti_comm_error(tutti_comm comm, tutti_result* code, int* culprit, char* text, size_t text_bytes);
/// Fails all pending and later calls, on all ranks, with TUTTI_ABORTED. Any thread. `why` may be NULL.
tutti_result tutti_comm_abort(tutti_comm comm, const char* why);
/// Frees the handle. Free the communicator's requests before. NULL is ignored.
tutti_result tutti_comm_free(tutti_comm comm);

// ---- calls --------------------------------------------------------------------------------------

/// Optional arguments of a call; NULL means the defaults.
typedef struct tutti_call {
  size_t struct_size;
  double timeout;         ///< seconds; 0: the communicator's timeout; infinity: no deadline
  double factor;          ///< the factor of TUTTI_PREMUL_SUM
  const char* algorithm;  ///< "ring", "gloo/bcube": overrides the rules; equal on all ranks
  int device;             ///< CUDA device of the buffers; -1: host memory
  void* stream;           ///< a cudaStream_t that the call is ordered after, if has_stream is not 0
  int has_stream;
} tutti_call;
#define TUTTI_CALL_INIT \
  { sizeof(tutti_call), 0, 1, 0, -1, 0, 0 }

// If `request` is NULL, a call blocks until it is done. Otherwise it only starts, and the caller frees *request. Counts
// are in elements; if a buffer has a block per rank, `count` is the size of one block. In place, allgather and gather
// (at the root) read this rank's block of `out`; reduce_scatter reads all blocks from `out` and writes its result to
// this rank's block; scatter with `out` NULL at the root leaves the root's block where it is.

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
/// Rank i contributes counts[i] elements; `count` is the number that this rank contributes.
tutti_result tutti_allgatherv(tutti_comm comm, const void* in, size_t count, void* out, const size_t* counts,
                              tutti_dtype dtype, const tutti_call* call, tutti_request* request);
tutti_result tutti_gather(tutti_comm comm, const void* in, void* out, size_t count, tutti_dtype dtype, int root,
                          const tutti_call* call, tutti_request* request);
/// Gatherv and scatterv use `counts` at the root only.
tutti_result tutti_gatherv(tutti_comm comm, const void* in, size_t count, void* out, const size_t* counts,
                           tutti_dtype dtype, int root, const tutti_call* call, tutti_request* request);
tutti_result tutti_scatter(tutti_comm comm, const void* in, void* out, size_t count, tutti_dtype dtype, int root,
                           const tutti_call* call, tutti_request* request);
tutti_result tutti_scatterv(tutti_comm comm, const void* in, const size_t* counts, void* out, size_t count,
                            tutti_dtype dtype, int root, const tutti_call* call, tutti_request* request);
/// Every rank sends `count` elements to every rank. An alltoallv in place sends as many elements to each rank as it
/// receives from that rank: `in_counts` is NULL or equal to `out_counts`.
tutti_result tutti_alltoall(tutti_comm comm, const void* in, void* out, size_t count, tutti_dtype dtype,
                            const tutti_call* call, tutti_request* request);
tutti_result tutti_alltoallv(tutti_comm comm, const void* in, const size_t* in_counts, void* out,
                             const size_t* out_counts, tutti_dtype dtype, const tutti_call* call,
                             tutti_request* request);
tutti_result tutti_barrier(tutti_comm comm, const tutti_call* call, tutti_request* request);

tutti_result tutti_send(tutti_comm comm, const void* data, size_t count, tutti_dtype dtype, int to, int tag,
                        const tutti_call* call, tutti_request* request);
/// `from` may be TUTTI_ANY_RANK; tutti_request_source then returns the sender.
tutti_result tutti_recv(tutti_comm comm, void* data, size_t count, tutti_dtype dtype, int from, int tag,
                        const tutti_call* call, tutti_request* request);
tutti_result tutti_sendrecv(tutti_comm comm, const void* in, size_t in_count, int to, void* out, size_t out_count,
                            int from, tutti_dtype dtype, int tag, const tutti_call* call, tutti_request* request);
/// Sets *found to 1 if a message has arrived that no receive has matched, otherwise to 0. For this message, *rank is
/// set to the sender and *bytes to the size; both pointers may be NULL. `from` may be TUTTI_ANY_RANK. Does not block.
tutti_result tutti_probe(tutti_comm comm, int from, int tag, int* found, int* rank, size_t* bytes);

/// Starts several calls as one. Between begin and end, this thread's calls on `comm` are only collected. Their
/// `request` must be NULL, and their tutti_calls must be equal except for `factor`. end starts all calls together and
/// fuses adjacent small ones. If its `request` is NULL, it blocks until all are done.
tutti_result tutti_group_begin(tutti_comm comm);
tutti_result tutti_group_end(tutti_comm comm, tutti_request* request);

// ---- requests -----------------------------------------------------------------------------------

/// These functions return the result of the call if it is done. *done is set to 1 if the call is done, otherwise to 0.
tutti_result tutti_test(tutti_request request, int* done);
tutti_result tutti_wait(tutti_request request);
tutti_result tutti_wait_for(tutti_request request, double seconds, int* done);
/// Waits until one call is done, successfully or not, and sets *which to its index. Sets *which to `n` if none is done
/// after `seconds`. If `seconds` is 0, it checks once.
tutti_result tutti_wait_any(size_t n, const tutti_request* requests, double seconds, size_t* which);
/// Waits for all calls and returns the first failure.
tutti_result tutti_wait_all(size_t n, const tutti_request* requests);
/// Cancels a receive that has not matched a message: sets *cancelled to 1, and the receive ends with TUTTI_ABORTED.
/// Otherwise sets *cancelled to 0 and has no effect.
tutti_result tutti_request_cancel(tutti_request request, int* cancelled);
/// Sets *rank to the sender, for a receive that is done. Returns TUTTI_IN_PROGRESS if the receive is not done.
tutti_result tutti_request_source(tutti_request request, int* rank);
/// A file descriptor that becomes readable when the call is done; closed with the request.
tutti_result tutti_request_eventfd(tutti_request request, int* fd);
/// Calls `fn` once, on a thread of the library, with the result of the call. `fn` must not wait for tutti, and may be
/// called after the request was freed.
tutti_result tutti_request_then(tutti_request request, void (*fn)(tutti_result result, void* user), void* user);
/// Frees the request. Blocks until the call is done. NULL is ignored.
tutti_result tutti_request_free(tutti_request request);

// ---- memory -------------------------------------------------------------------------------------

/// Allocates zeroed memory that the ranks on this host share, so that they can access it without copies. Local.
tutti_result tutti_allocate(tutti_comm comm, size_t bytes, void** data, tutti_memory* memory);
/// Registers memory of the caller, so that calls on any part of it are faster, until *memory is freed. Local.
tutti_result tutti_register(tutti_comm comm, void* data, size_t bytes, tutti_memory* memory);
/// NULL is ignored.
tutti_result tutti_memory_free(tutti_memory memory);

#pragma GCC visibility pop
#ifdef __cplusplus
}
#endif
