// Communicator: a group of ranks that call collectives together; the library's main public class.
#pragma once

#include <array>
#include <concepts>
#include <cstdint>
#include <functional>
#include <initializer_list>
#include <limits>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "tutti/accelerator.hpp"
#include "tutti/buffer.hpp"
#include "tutti/collective.hpp"
#include "tutti/reduce.hpp"
#include "tutti/settings.hpp"
#include "tutti/topology.hpp"
#include "tutti/work.hpp"

namespace tutti {

struct Bootstrap;
struct Group;
class Store;

/// A message that has arrived, or has been announced, and that no posted receive matches. The result of probe().
struct Arrived {
  int from = 0;  ///< source, a rank of the communicator
  int tag = 0;
  std::size_t bytes = 0;
  /// Count and type of the elements, as sent. With TUTTI_VERIFY=off messages do not carry them: count = bytes, type u8.
  std::size_t count = 0;
  DType dtype = DType::u8;
};

/// The timeout of a call that never expires.
inline constexpr double no_deadline = std::numeric_limits<double>::infinity();

/// Optional arguments of a call. Without `timeout` the communicator's holds, without `algorithm` its rules choose.
struct CallOptions {
  std::optional<double> timeout = {};  ///< seconds from launch to the deadline, more than 0, or no_deadline
  std::string algorithm = {};          ///< "ring", "gloo", "gloo/bcube": overrides the rules; the same on all ranks
  /// For a call on device memory: the call starts after the work enqueued on this stream so far. Default: the default
  /// stream of the buffers' device.
  std::optional<Stream> stream = {};
  /// Owner of the buffers, released when the call is done. With an owner, destroying the Work does not block.
  std::shared_ptr<const void> keep = {};
  /// What the caller names the call ("MPI_Allreduce"), for the reports of `tutti doctor`. A static text, or null.
  const char* label = nullptr;
};

/// The result of agree(), equal on all ranks that return from it.
struct Agreed {
  std::uint64_t bits = 0;    ///< the bitwise and of the members' bits
  std::vector<int> members;  ///< ranks of the communicator that are left, in ascending order
};

/// Zeroed memory of `size()` elements of T, registered with every transport that can register memory. Movable; owns the
/// memory, which must outlive every Work that uses it. See Communicator::allocate().
template <Element T>
class Allocation {
 public:
  Allocation(std::shared_ptr<void> owner, T* data, std::size_t size) noexcept
      : owner_(std::move(owner)), data_(data), size_(size) {}
  T* data() const noexcept { return data_; }
  std::size_t size() const noexcept { return size_; }
  T* begin() const noexcept { return data_; }
  T* end() const noexcept { return data_ + size_; }
  T& operator[](std::size_t i) const noexcept { return data_[i]; }

 private:
  std::shared_ptr<void> owner_;
  T* data_;
  std::size_t size_;
};

/// A group of ranks 0 .. size()-1. All ranks call the same collectives in the same order.
///
/// Calls: every call returns a Work at once; `.wait()` makes it synchronous. Buffers are borrowed until the Work is
/// done. A count is a number of elements of the buffers' dtype. Results are bitwise equal on all ranks, and between
/// runs with the same algorithm.
///
/// Threads: any thread may call. The caller makes sure that all ranks issue the calls of one communicator in the same
/// order.
///
/// Errors: wrong arguments (counts, dtypes, devices, ranks) throw Error{invalid} from the call; every other error is
/// thrown by wait(). The first failure poisons the communicator: all its pending and later calls fail with that
/// cause, on all ranks.
///
/// Ownership: copies are handles to the same communicator. The last handle of a rank's last communicator disconnects
/// the rank from the job.
class Communicator {
 public:
  /// The communicator of all ranks of the job, from the environment of the launcher (tutti run, torchrun, mpirun,
  /// srun); without a launcher, one of size 1. Collective over the job; blocks until every rank is connected. Throws
  /// Error. Without `settings`, they are read from the environment.
  static Communicator from_env();
  static Communicator from_env(const Settings& settings);

  /// As from_env(), with explicit values for rank, size and store (see tutti/bootstrap.hpp).
  static Communicator connect(const Bootstrap& bootstrap);

  /// This rank's number in the communicator, and the number of its ranks.
  int rank() const noexcept;
  int size() const noexcept;
  /// The world rank of rank `i` of this communicator; 0 <= i < size().
  int world_rank(int i) const;
  const Settings& settings() const noexcept;

  /// Allreduce: out[k] = op over all ranks' in[k], on every rank. `in` and `out` have the same count and dtype; the
  /// form with one buffer works in place. `op` is one of the operators in tutti/reduce.hpp.
  Work allreduce(Buffer data, Reduction op = sum, const CallOptions& options = {});
  Work allreduce(ConstBuffer in, Buffer out, Reduction op = sum, const CallOptions& options = {});

  /// Reduce: as allreduce, with the result at `root` only. On the other ranks `in` is not changed and `out` is
  /// ignored.
  Work reduce(Buffer data, Reduction op = sum, int root = 0, const CallOptions& options = {});
  Work reduce(ConstBuffer in, Buffer out, Reduction op = sum, int root = 0, const CallOptions& options = {});

  /// Broadcast: copies root's `data` into the `data` of every rank. All ranks pass the same count and dtype.
  Work broadcast(Buffer data, int root = 0, const CallOptions& options = {});

  /// Allgather: `in` has n elements, `out` has size() * n; block i of `out` is rank i's `in`, on every rank.
  /// Allgatherv: rank i contributes counts[i] elements, `out` has the sum of the counts, and all ranks pass the same
  /// size() counts.
  Work allgather(ConstBuffer in, Buffer out, const CallOptions& options = {});
  Work allgatherv(ConstBuffer in, Buffer out, std::span<const std::size_t> counts, const CallOptions& options = {});

  /// Reduce-scatter: `in` has size() * n elements, `out` has n. Rank i receives block i of the reduction of all ranks'
  /// `in`. Reduce_scatterv: block i has counts[i] elements, and all ranks pass the same size() counts.
  Work reduce_scatter(ConstBuffer in, Buffer out, Reduction op = sum, const CallOptions& options = {});
  Work reduce_scatterv(ConstBuffer in, Buffer out, std::span<const std::size_t> counts, Reduction op = sum,
                       const CallOptions& options = {});

  /// Gather: as allgather, with the result at `root` only; `out` of the other ranks is ignored. Gatherv: `counts` is
  /// read at the root; elsewhere it may be empty, and a rank contributes all of `in`.
  Work gather(ConstBuffer in, Buffer out, int root = 0, const CallOptions& options = {});
  Work gatherv(ConstBuffer in, Buffer out, std::span<const std::size_t> counts, int root = 0,
               const CallOptions& options = {});

  /// Scatter: block i of root's `in` (size() * n elements) goes to rank i's `out` (n elements); `in` of the other
  /// ranks is ignored. Scatterv: `counts` is read at the root; elsewhere it may be empty, and a rank receives as many
  /// elements as `out` has.
  Work scatter(ConstBuffer in, Buffer out, int root = 0, const CallOptions& options = {});
  Work scatterv(ConstBuffer in, Buffer out, std::span<const std::size_t> counts, int root = 0,
                const CallOptions& options = {});

  /// Alltoall: block j of rank i's `in` goes to block i of rank j's `out`; both have size() * n elements. Alltoallv:
  /// in_counts[j] elements go to rank j, and out_counts[j] elements come from it; each rank passes its own size()
  /// counts of both.
  Work alltoall(ConstBuffer in, Buffer out, const CallOptions& options = {});
  Work alltoallv(ConstBuffer in, std::span<const std::size_t> in_counts, Buffer out,
                 std::span<const std::size_t> out_counts, const CallOptions& options = {});

  /// Barrier: done after every rank has called it.
  Work barrier(const CallOptions& options = {});

  /// Point-to-point messages from one rank to another, or to itself. Messages with the same ranks and tag (>= 0)
  /// match in order. Sender and receiver give the same count and dtype, and both use host memory or both device
  /// memory.
  Work send(ConstBuffer data, int to, int tag = 0, const CallOptions& options = {});
  Work recv(Buffer data, int from, int tag = 0, const CallOptions& options = {});
  /// Receives a message from any rank; the result is the sender's rank. If several have arrived on one transport, takes
  /// the oldest of them; asks the transports in turn. A recv() that names the sender matches first. Host memory only.
  Value<int> recv_any(Buffer data, int tag = 0, const CallOptions& options = {});
  /// The oldest message from `from` (or any_rank) that has arrived and matches no posted receive, or nullopt. The
  /// message stays, and the next recv() from that rank gets it. Local; does not block; host memory only. Throws the
  /// communicator's first failure if there is no message and the communicator has failed.
  std::optional<Arrived> probe(int from, int tag = 0);
  /// A send to `to` and a receive from `from` at the same time. `in` and `out` may be the same buffer; their counts
  /// may differ.
  Work sendrecv(ConstBuffer in, int to, Buffer out, int from, int tag = 0, const CallOptions& options = {});
  /// Sends `in` to rank + offset and receives `out` from rank - offset, both modulo size(). All ranks pass the same
  /// offset and count.
  Work shift(ConstBuffer in, Buffer out, int offset = 1, const CallOptions& options = {});

  /// Allreduce of one value: `float worst = world.allreduce(loss, tutti::max).wait();`
  template <Element T>
  Value<T> allreduce(T value, Reduction op = sum, const CallOptions& options = {}) {
    return Value<T>(launch_value(Kind::allreduce, Buffer(&value, 1, dtype_of<T>), op, 0, options));
  }
  template <Element T>
  Value<T> reduce(T value, Reduction op = sum, int root = 0, const CallOptions& options = {}) {
    return Value<T>(launch_value(Kind::reduce, Buffer(&value, 1, dtype_of<T>), op, root, options));
  }
  template <Element T>
  Value<T> broadcast(T value, int root = 0, const CallOptions& options = {}) {
    return Value<T>(launch_value(Kind::broadcast, Buffer(&value, 1, dtype_of<T>), sum, root, options));
  }

  // Groups. The following functions are collectives of this communicator, except group(). Each blocks, costs one
  // allgather of 40 bytes per rank, and may be called with operations in flight. A group uses no file descriptors or
  // shared memory of its own, and ends with its last handle. Errors: if ranks make different groups, all of them
  // throw Error{mismatch}. Groups can be made of groups: `world.node().split_by(numa_node)`.

  /// Ranks with the same `color` form a communicator, ordered by (key, rank). A negative color returns nullopt.
  std::optional<Communicator> split(int color, int key = 0);
  /// Ranks with the same key form a communicator, ordered by rank. A key is any string of bytes.
  Communicator split_by(std::string_view key);
  /// The communicator of the listed ranks, in that order, made by these ranks alone. Every listed rank passes the
  /// same list and name; the other ranks do not call. Members make groups of the same list and name in the same
  /// order. Blocks until all members have called, at most for the communicator's timeout; then only the new group
  /// fails. Throws Error{invalid} if this rank is not listed.
  Communicator group(std::span<const int> ranks, std::string_view name);
  /// The communicator of the listed ranks, in that order; all ranks pass the same list. Returns nullopt on ranks not
  /// listed.
  std::optional<Communicator> subgroup(std::span<const int> ranks);
  /// A communicator of the same ranks, whose calls are ordered independently of this one's.
  Communicator dup();
  /// The ranks on this rank's host, ordered by rank.
  Communicator node();
  /// The ranks whose index on their host equals this rank's: one on each host that has such a rank, ordered by
  /// host. Hosts are ordered by their lowest rank.
  Communicator across();
  /// The lowest rank of every host; nullopt on the other ranks.
  std::optional<Communicator> leaders();

  // Survival. The following functions are calls of the ranks that are left, and work on a communicator that has failed.
  // The launcher must not end the job when a rank dies (`tutti run --elastic` or `--keep-going`).

  /// The ranks that are left agree on the bitwise and of their bits and on who is left, even if ranks die meanwhile or
  /// the communicator has failed. Each of them calls it the same number of times; the bits of a rank that dies
  /// meanwhile may count. Blocks until all that are left have called, at most for the communicator's timeout; then
  /// throws Error{timeout} that names whom it waits for, and the next call goes on with the same agreement and bits.
  /// Throws Error{peer_lost} with this rank as the culprit if the others hold this rank for lost. If others call
  /// shrink() or grow() meanwhile, throws the communicator's failure, or Error{mismatch}. Costs four small messages per
  /// rank, and as many again for each rank 0, 1, ... that dies meanwhile. Not to be called by two threads at once. The
  /// algorithm is described in collectives/runtime/consensus.hpp.
  Agreed agree(std::uint64_t bits = ~std::uint64_t{0});
  /// The communicator of the ranks that are left, in their old order. Agrees on them first, see agree(); waits for
  /// ranks that are in agree() or grow() of this communicator, which fail there and are expected to shrink it then. A
  /// rank that dies afterwards makes the new communicator fail, which can then be shrunk in turn. Calls of this
  /// communicator that still run are not concerned: they fail if a rank of theirs has died. The new communicator has
  /// other tags, so it receives no late message of this one.
  Communicator shrink();
  /// The communicator of those of the listed ranks that are left, in the order of the list. The other ranks do not
  /// call, and need not be dead. Every listed rank that is left passes the same list and name, and makes such
  /// communicators of one list and name in the same order; if one of them gets Error{timeout}, all have to call again.
  /// Otherwise as shrink(). Throws Error{invalid} if this rank is not listed.
  Communicator shrink(std::span<const int> ranks, std::string_view name);
  /// Admits processes that wait to join the job: those that the launcher has started for dead ranks (`tutti run
  /// --elastic`), or that somebody has started with TUTTI_JOIN and the job's TUTTI_STORE, TUTTI_JOB and TUTTI_SECRET.
  /// They return from from_env() with the same new communicator as the callers, in which they follow the ranks of this
  /// one, in the order in which they came. Collective; all ranks pass the same arguments. Admits at most `most`; blocks
  /// until so many wait, at most for `patience` seconds, and then takes those that are there. Returns a handle to this
  /// communicator if there are none, or if they end before they are connected. The new communicator is the world of a
  /// new epoch: it shares no connection, memory or tag with this one, which stays usable. Throws Error{unsupported} if
  /// the job has no store where processes could wait.
  Communicator grow(int most, double patience = 0);
  /// The number of processes that wait to be admitted by grow(); 0 if the job has no store where they could wait.
  /// Local; takes a few round trips to the store. Throws Error.
  int waiting() const;
  /// The number of the epoch: 0 in the communicators of the job's first ranks; each grow() that admits processes begins
  /// a new one. Its number is equal on all ranks and higher than those before. A process that has joined sees one above
  /// 0 at once.
  std::uint64_t epoch() const;

  /// The name of this communicator in reports, at most 31 bytes of it. Without set_name() it says how the communicator
  /// was made: "world", "world/split", or the name passed to group(). Local; any thread.
  void set_name(std::string_view name);
  std::string name() const;

  /// The hosts of all ranks. Local; takes O(size()) time.
  Topology topology() const;
  /// True if all hosts have the same number of ranks, so that node() and across() form a grid. Local.
  bool is_cartesian() const;

  /// The CUDA devices of this process, or the reason why there are none. Opened by the first call. Any thread.
  Accelerator& accelerator() const;
  /// The device number of this rank: its index among the job's ranks on the host, modulo the number of visible
  /// devices (CUDA_VISIBLE_DEVICES); 0 if there are none.
  int device() const;

  /// Allocates `count` zeroed elements of T in memory that other ranks on the host access directly, in calls of this
  /// communicator and of its groups. Allocating and freeing are local. Throws Error{invalid} if the size exceeds any
  /// address space, and Error{resource} if this host does not have enough memory.
  template <Element T>
  Allocation<T> allocate(std::size_t count) {
    auto owner = allocate_elements(count, sizeof(T));
    return {owner, static_cast<T*>(owner.get()), count};
  }

  /// Registers `bytes` bytes of the caller's memory, so that calls on any part of it are as fast as on memory from
  /// allocate(). Affects transports that register memory (ibverbs); has no effect on others. Local; any thread. The
  /// registration ends with the returned owner, and the memory must stay mapped until then.
  std::shared_ptr<void> register_memory(void* data, std::size_t bytes);

  /// Sends a message of at most 1008 bytes to the control handler of rank `to`, which may be this rank. Does not wait
  /// for delivery. Messages of one rank arrive in order; a message to a lost rank is dropped. Meant for rare events,
  /// since it wakes up the receiver.
  void control(int to, ConstBytes message);
  /// Sets the function that receives messages of control(), including those that arrived before. It runs for one
  /// message at a time, on any thread that drives progress; it must not wait for calls and must not own this
  /// communicator. While the handler is empty, messages are kept for the next one. The previous handler may still be
  /// running when this returns.
  void on_control(std::function<void(int from, ConstBytes message)> handler);

  /// A key-value map shared by the ranks of this communicator, with separate keys, for example for addresses.
  /// Local; not ordered with the collectives. See Store for threads and errors. Each function other than wait() takes
  /// at most half a second.
  std::shared_ptr<Store> store() const;

  /// Fails all pending and later calls of this communicator with Code::aborted, on all ranks. Any thread.
  void abort(const std::string& why) noexcept;

  /// What `tutti doctor` says of this rank's job, as one paragraph: what holds it up, which rank is to blame, in which
  /// call, and what that rank's process does. It reads the flight recorders of the ranks on this host, which may hang
  /// or be gone. A call that has run for `patience` seconds counts as stuck. Local; any thread; takes milliseconds, or
  /// half a second for a process that does not answer. Throws Error{unsupported} with TUTTI_RECORDER=off.
  std::string doctor(double patience = 1.0) const;

  /// The transport used to reach each rank, by rank: "self", "shm", "tcp 10.0.0.2 via eth0".
  std::vector<std::string> routes() const;

  /// Creates the backend `name` ("mpi", "gloo") for this communicator, so that CallOptions::algorithm may select it.
  /// Backends that the rules or the setting `backend` name exist from the start. Collective; blocks. Operations may
  /// be in flight, but no other thread may use this communicator meanwhile. Throws Error{unsupported} on all ranks if
  /// one of them cannot use the backend.
  void use_backend(const std::string& name);

  /// One line with the backend and algorithm selected for `call`, the rule that selected them, and the alternatives:
  /// "planned/ring: rule 'allreduce: 262144..=ring' (built in); not chosen: ...". Local.
  std::string explain(const Collective& call) const;

  /// Launches a call described by a Collective. All functions above that return a Work are short forms of this one.
  Work launch(Collective call, const CallOptions& options = {});
  /// Launches several calls as one Work, in order. It is done when all calls are done, and fails when one fails. All
  /// ranks pass the same list, except for sends and receives, which may differ. Adjacent calls with the same kind,
  /// dtype, operator and root that together have at most as many bytes as the setting `lane_bytes` are sent as one
  /// call. `options` apply to each call. Throws Error{invalid} before any call starts if one of them is not valid. The
  /// Work of an empty list is done at once.
  Work launch(std::span<const Collective> calls, const CallOptions& options = {});

  class Impl;
  explicit Communicator(std::shared_ptr<Impl> impl) noexcept : impl_(std::move(impl)) {}

 private:
  struct Word;
  std::vector<Word> gather_words(std::string_view maker, std::array<std::int64_t, 4> what);
  /// The communicator of the listed ranks; nullopt if this rank is not listed. Ranks that pass the same list pass the
  /// same `number`. See groups.cpp.
  std::optional<Communicator> make_group(std::string_view maker, std::span<const int> ranks, int number);
  Communicator make_own_group(std::span<const int> ranks, std::string_view name);
  void make_named_backends();
  std::shared_ptr<void> allocate_elements(std::size_t count, std::size_t element_bytes);
  /// Launches a call on one element. `value` is copied before this returns, and the result is stored in the Work (see
  /// Value).
  Work launch_value(Kind kind, Buffer value, Reduction op, int root, const CallOptions& options);
  std::shared_ptr<Impl> impl_;
};

}  // namespace tutti
