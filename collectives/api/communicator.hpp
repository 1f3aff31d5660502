// Communicator: ranks that act together. The public face of the library.
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

#include "collectives/bootstrap/topology.hpp"
#include "transports/core/accelerator.hpp"
#include "transports/core/buffer.hpp"
#include "transports/core/collective.hpp"
#include "transports/core/reduce.hpp"
#include "transports/core/settings.hpp"
#include "transports/core/work.hpp"

namespace tutti {

struct Bootstrap;
struct Group;
class Store;

/// A message that has come, or was announced, and that no receive has been posted for.
struct Arrived {
  int from = 0;  ///< whose it is, a rank of the communicator
  int tag = 0;
  std::size_t bytes = 0;
  /// Elements and their type, as the sender said; u8 where TUTTI_VERIFY is off, as messages do not tell then.
  std::size_t count = 0;
  DType dtype = DType::u8;
};

/// As a timeout: the call never expires.
inline constexpr double no_deadline = std::numeric_limits<double>::infinity();

/// Beside the operands of a call; every field has the communicator's value as default.
struct CallOptions {
  std::optional<double> timeout = {};  ///< seconds from launch to the deadline; or no_deadline
  std::string algorithm = {};  ///< "ring", "gloo", "gloo/bcube": instead of the rules' choice; equal on all ranks
  /// Of a call on device memory: it begins after what this stream has by now. Left out: the default stream of the
  /// buffers' device.
  std::optional<Stream> stream = {};
  /// What owns the buffers, kept until the work is done; then a dropped handle does not wait.
  std::shared_ptr<const void> keep = {};
};

/// Memory of `size()` elements that every transport reads and writes at its best; owned, movable. Free it
/// only when no Work uses it.
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

/// Ranks 0 .. size()-1 that call collectives together, each in the same order.
///
/// Every call returns at once with a Work; the synchronous form is `.wait()`. Buffers are borrowed
/// until the Work is done. `count` is elements. Results are bitwise equal on all ranks and
/// between runs for one choice of algorithm.
///
/// Threads: any thread may call; that all ranks issue the calls of one communicator in one
/// order is the caller's duty. Errors: wrong arguments throw Error{invalid} from the call;
/// everything else throws from wait(). After the first failure the communicator is
/// poisoned: every pending and later Work fails with that first cause. Copies are the
/// same communicator; the last one to go leaves the job with a goodbye.
class Communicator {
 public:
  /// From the launcher's environment (tutti run, torchrun, mpirun, srun), or alone: size 1.
  static Communicator from_env();
  static Communicator from_env(const Settings& settings);

  /// From values known otherwise (see bootstrap/bootstrap.hpp).
  static Communicator connect(const Bootstrap& bootstrap);

  int rank() const noexcept;
  int size() const noexcept;
  /// World rank of this communicator's rank `i`.
  int world_rank(int i) const;
  const Settings& settings() const noexcept;

  /// out = op over all ranks of in, on every rank; count elements each. One buffer: in place.
  Work allreduce(Buffer data, Reduction op = sum, const CallOptions& options = {});
  Work allreduce(ConstBuffer in, Buffer out, Reduction op = sum, const CallOptions& options = {});

  /// As allreduce, at `root` only; the others' `in` stays as it is and their `out` is not looked at.
  Work reduce(Buffer data, Reduction op = sum, int root = 0, const CallOptions& options = {});
  Work reduce(ConstBuffer in, Buffer out, Reduction op = sum, int root = 0, const CallOptions& options = {});

  /// root's data everywhere.
  Work broadcast(Buffer data, int root = 0, const CallOptions& options = {});

  /// Every rank's `in` (count each), one after the other by rank, in everyone's `out` (size * count). For
  /// v: rank i gives counts[i] elements; all ranks pass the same counts.
  Work allgather(ConstBuffer in, Buffer out, const CallOptions& options = {});
  Work allgatherv(ConstBuffer in, Buffer out, std::span<const std::size_t> counts, const CallOptions& options = {});

  /// The reduction of everyone's `in` (size * count), of which rank i keeps block i in `out` (count).
  Work reduce_scatter(ConstBuffer in, Buffer out, Reduction op = sum, const CallOptions& options = {});
  Work reduce_scatterv(ConstBuffer in, Buffer out, std::span<const std::size_t> counts, Reduction op = sum,
                       const CallOptions& options = {});

  /// As allgather, at root only. For v, the counts are looked at at the root; elsewhere they may be empty, and a rank
  /// gives what `in` holds.
  Work gather(ConstBuffer in, Buffer out, int root = 0, const CallOptions& options = {});
  Work gatherv(ConstBuffer in, Buffer out, std::span<const std::size_t> counts, int root = 0,
               const CallOptions& options = {});

  /// Block i of root's `in` (size * count) goes to rank i's `out` (count). For v, the counts are looked at
  /// at the root; elsewhere they may be empty, and a rank gets what `out` holds.
  Work scatter(ConstBuffer in, Buffer out, int root = 0, const CallOptions& options = {});
  Work scatterv(ConstBuffer in, Buffer out, std::span<const std::size_t> counts, int root = 0,
                const CallOptions& options = {});

  /// Block j of rank i's `in` becomes block i of rank j's `out`. For v each rank knows only its own counts:
  /// in_counts[j] elements go to rank j, out_counts[j] come from it.
  Work alltoall(ConstBuffer in, Buffer out, const CallOptions& options = {});
  Work alltoallv(ConstBuffer in, std::span<const std::size_t> in_counts, Buffer out,
                 std::span<const std::size_t> out_counts, const CallOptions& options = {});

  /// Done when every rank has called it.
  Work barrier(const CallOptions& options = {});

  /// Between two ranks, also to oneself; a peer that is no rank is refused. Equal `tag`s match in order. Counts and
  /// dtypes must agree, and the kind of memory: a message from a device is received on a device.
  Work send(ConstBuffer data, int to, int tag = 0, const CallOptions& options = {});
  Work recv(Buffer data, int from, int tag = 0, const CallOptions& options = {});
  /// From whichever rank sends first: the value is that rank. Of messages that have come the oldest is taken, where
  /// there are several transports from each in turn; recvs that name a rank go before. Not on device memory.
  Value<int> recv_any(Buffer data, int tag = 0, const CallOptions& options = {});
  /// What has come from `from`, or from any_rank, and that no receive has met: the oldest, which a recv() from there
  /// will get. Local; takes nothing. Where there is nothing, the communicator's first failure is thrown. Does not see
  /// messages of device memory.
  std::optional<Arrived> probe(int from, int tag = 0);
  /// Both at once; in and out may be one buffer, and counts may differ.
  Work sendrecv(ConstBuffer in, int to, Buffer out, int from, int tag = 0, const CallOptions& options = {});
  /// Everyone's `in` goes to rank + offset (modulo size); out = what rank - offset had.
  Work shift(ConstBuffer in, Buffer out, int offset = 1, const CallOptions& options = {});

  /// Scalars: `float worst = world.allreduce(loss, tutti::max).wait();`
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

  // Groups. Each of these is a collective of this communicator, in the order of its calls, and allowed with operations
  // in flight. It blocks, costs one allgather of 40 bytes per rank, and holds no descriptor and no shared memory; a
  // group goes with its last copy. Errors: where ranks make different groups, all throw Error{mismatch}. Nested levels
  // are groups of groups: `world.node().split_by(numa_node)`.

  /// Ranks with equal `color` form a new communicator, ordered by (key, rank); a negative colour joins none (nullopt).
  std::optional<Communicator> split(int color, int key = 0);
  /// Ranks with equal keys, in the order of their ranks here. A key may have any length and any bytes.
  Communicator split_by(std::string_view key);
  /// The listed ranks, in that order, made by these alone: each passes the same list and the same name, and the other
  /// ranks take no part. Not a collective of this communicator, as the others are not in it; for one list and name, all
  /// its members make their groups in the same order. Blocks until all of them are there, for the communicator's
  /// timeout at most, which ends the new group alone. Throws Error{invalid} where this rank is not listed.
  Communicator group(std::span<const int> ranks, std::string_view name);
  /// The listed ranks, in that order; all ranks pass the same list. nullopt for those not listed.
  std::optional<Communicator> subgroup(std::span<const int> ranks);
  /// The same ranks again: calls of the two do not wait for one another.
  Communicator dup();
  /// The ranks of this rank's host, in the order of their ranks here.
  Communicator node();
  /// The ranks that have this rank's place on their hosts, one of each host that has so many; hosts in the order of
  /// their first ranks.
  Communicator across();
  /// The first rank of every host; nullopt for the others.
  std::optional<Communicator> leaders();

  /// Where the ranks are. Local; costs the order of size() steps.
  Topology topology() const;
  /// Whether all hosts have equally many ranks, so that node() and across() are the rows and columns of a grid. Local.
  bool is_cartesian() const;

  /// The devices of this process, or none and why. Opened by whoever asks first.
  Accelerator& accelerator() const;
  /// The device of this rank: by its number among the job's ranks of its host, in turns where these are more. What
  /// CUDA_VISIBLE_DEVICES hides does not count. 0 where there is none.
  int device() const;

  /// Memory for communication, zeroed, which the other ranks of the host read and write in place: in calls of this
  /// communicator and of all groups of its ranks. Local, and so is freeing.
  template <Element T>
  Allocation<T> allocate(std::size_t count) {
    auto owner = allocate_bytes(count * sizeof(T));
    return {owner, static_cast<T*>(owner.get()), count};
  }

  /// Makes memory of the caller's ready for calls on any part of it, as if it came from allocate() where a transport
  /// can do that (ibverbs registers it); elsewhere it has no effect. Local; for as long as the result lives. The memory
  /// must not be unmapped before that is gone. Any thread.
  std::shared_ptr<void> register_memory(void* data, std::size_t bytes);

  /// A small message, of 1008 bytes at most, to the handler of rank `to`, also of this one; nobody waits for it. Those
  /// of one rank keep their order; to a rank that is lost they are too. For what is rare: it costs a wake-up there.
  void control(int to, ConstBytes message);
  /// `handler` is called with what others send by control(), what came before it was set first: one message at a time,
  /// in any thread that drives. It must not wait for calls, nor own this communicator. Empty: messages are kept. The
  /// last one may still run when this returns.
  void on_control(std::function<void(int from, ConstBytes message)> handler);

  /// A map that all ranks of this communicator see, with keys of its own: for addresses and the like. Local, not in the
  /// order of calls. See Store for threads and errors; but for wait() nothing of it takes longer than half a second.
  std::shared_ptr<Store> store() const;

  /// Ends everything in flight, here and on the other ranks, with Code::aborted.
  void abort(const std::string& why) noexcept;

  /// Which transport reaches each rank: "self", "shm", "tcp 10.0.0.2 via eth0".
  std::vector<std::string> routes() const;

  /// Makes a backend ("mpi", "gloo") for this communicator, so that calls may name it. Those that the rules or the
  /// setting `backend` name are there from the start. Collective; blocks; allowed with operations in flight, but no
  /// other thread may use this communicator meanwhile. Throws Error{unsupported} on all ranks where one of them cannot
  /// have it.
  void use_backend(const std::string& name);

  /// The backend and algorithm that the rules choose for this call, why, and the others:
  /// "planned/ring: rule 'allreduce: 262144..=ring' (built in); not chosen: ...".
  std::string explain(const Collective& call) const;

  /// Starts a call given as a value; what all of the above do.
  Work launch(Collective call, const CallOptions& options = {});
  /// Several calls as one, started in their order: done when all are, and failed when one has. All ranks give the same
  /// list, but for sends and receives, which may be any. Neighbours of one kind, type, operator and root that have at
  /// most `lane_bytes` together travel packed, as one call. The options are those of each call. What is wrong with one
  /// of them throws Error{invalid} before any is started. An empty list is done.
  Work launch(std::span<const Collective> calls, const CallOptions& options = {});

  class Impl;
  explicit Communicator(std::shared_ptr<Impl> impl) noexcept : impl_(std::move(impl)) {}

 private:
  struct Word;
  std::vector<Word> gather_words(std::string_view maker, std::array<std::int64_t, 4> what);
  /// These ranks, equal `number` for equal lists; nullopt where this rank is none of them. See groups.cpp.
  std::optional<Communicator> make_group(std::span<const int> ranks, int number);
  Communicator make_own_group(std::span<const int> ranks, std::string_view name);
  void make_named_backends();
  std::shared_ptr<void> allocate_bytes(std::size_t bytes);
  /// Of one element, which is copied before this returns; the result is the Work's own (see Value).
  Work launch_value(Kind kind, Buffer value, Reduction op, int root, const CallOptions& options);
  std::shared_ptr<Impl> impl_;
};

}  // namespace tutti
