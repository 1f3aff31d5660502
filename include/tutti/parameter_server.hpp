// ParameterServer: buffers that server ranks keep in shards, and that worker ranks push to and pull from
// asynchronously. A push names a rule ("add"), by which a server updates its values; a rule with rounds collects
// several pushes. After Li et al., "Scaling distributed machine learning with the parameter server", OSDI 2014.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "tutti/buffer.hpp"
#include "tutti/communicator.hpp"
#include "tutti/rule.hpp"

namespace tutti {

/// The version of one server's shard when it replied.
struct ShardVersion {
  int server = 0;             ///< index among the servers
  std::uint64_t epoch = 0;    ///< each load() begins a new epoch; do not compare versions of different epochs
  std::uint64_t version = 0;  ///< number of updates of the shard so far
  bool operator==(const ShardVersion&) const = default;
};

/// A push or pull in flight. Copies are handles of the same request.
///
/// Threads: any, but one at a time. wait() may be called repeatedly. Until done(), the buffers passed to the call
/// belong to the library; destroying the last handle blocks until done(). Errors: wait() throws the server's error
/// (Error{invalid} for an unknown rule or a wrong range; the server keeps running), or an Error with the reason why the
/// server cannot be reached.
class [[nodiscard]] Request {
 public:
  Request() = default;  ///< a request that is done
  void wait() const;
  /// As wait(), but returns false if the request is still running after `limit`.
  bool wait_for(Seconds limit) const;
  bool done() const;

  /// Valid once done: one entry for each server that has replied without an error, in the servers' order.
  const std::vector<ShardVersion>& versions() const;
  /// The smallest version in versions(), or 0 if there is none.
  std::uint64_t version() const;

  struct State;

 private:
  friend class Parameters;
  friend std::optional<std::size_t> wait_any(std::span<const Request> requests, Seconds limit);
  explicit Request(std::shared_ptr<State> state) : state_(std::move(state)) {}
  std::shared_ptr<State> state_;
};

/// Waits until one of `requests` is done or has failed, and returns its index. Returns nullopt once `limit` has passed,
/// or if `requests` is empty.
std::optional<std::size_t> wait_any(std::span<const Request> requests, Seconds limit);

/// Optional arguments of a push.
struct PushOptions {
  std::size_t offset = 0;  ///< where the data begin in the whole buffer, in elements
  PushMeta meta = {};
};

/// One worker's handle of a buffer that the servers keep. Copies are handles of the same buffer.
///
/// A server processes the calls of one worker on one buffer in program order. Exception: a push to a rule with rounds
/// (quorum or grace) takes effect when its round is applied. Calls on different buffers may be reordered. Servers do
/// not synchronize with one another: a pull may see another worker's push in some shards only. Once wait() of a push
/// has returned, all pulls that begin afterwards see the push. Threads: any.
class Parameters {
 public:
  const std::string& name() const noexcept;
  std::size_t count() const noexcept;
  DType dtype() const noexcept;
  /// The range of elements of each server, in the servers' order; ranges may be empty.
  const std::vector<Range>& shards() const noexcept;

  /// Applies the rule named `rule` with `data`, at each server that has a part of the range. Done once the rule has
  /// been applied; for a rule with rounds, once the round has been applied. Servers convert data of another
  /// floating-point type. For a rule that takes no data, only the range of `data` is used; see push(rule).
  Request push(std::string_view rule, ConstBuffer data, const PushOptions& options = {}) const;
  /// Applies a rule that takes no data, such as "zero", to the whole buffer.
  Request push(std::string_view rule) const;
  /// Reads the values of [offset, offset + into.count); `into` has the buffer's element type.
  Request pull(Buffer into, std::size_t offset = 0) const;
  /// Push and pull in one round trip: reads the values after the push has been applied, or the rule's own answer (see
  /// ServerRule::answers). `into` has the count of `data`, and may be the same memory if the types are the same.
  Request push_pull(std::string_view rule, ConstBuffer data, Buffer into, const PushOptions& options = {}) const;

  /// Closes the buffer for this worker. The servers delete it if no other worker has it open. Blocks.
  void free();

 private:
  friend class ParameterServer;
  struct State;
  explicit Parameters(std::shared_ptr<State> state) : state_(std::move(state)) {}
  std::shared_ptr<State> state_;
};

/// Optional arguments of open(); all but `counts` must be the same on all workers.
struct OpenOptions {
  /// Number of elements at each server, in the servers' order; empty: as even as possible.
  std::vector<std::size_t> shares = {};
  /// Stale synchronous parallel (Ho et al., 2013): replies to a worker are held back while it is more than this many
  /// pushes ahead of the slowest worker that has the buffer open. A worker that opens the buffer later starts with the
  /// number of pushes of the slowest worker.
  std::optional<std::uint64_t> staleness = {};
  /// false: rounds and the staleness bound do not wait for this worker; it can still push and pull.
  bool counts = true;
};

/// Servers and workers among the ranks of a communicator; a rank may be both.
///
/// A server processes requests on a thread of its own, which sleeps while there are none. Each pair of a worker and a
/// server has a communicator of its own. If one of the two dies, only their outstanding requests fail, provided that
/// the launcher does not end the job (`tutti run --keep-going`). Pushes that a server has received completely before
/// their worker dies are applied.
///
/// Threads: any thread may call open(), dump() and load(); the other calls are for one thread at a time. Errors: wrong
/// arguments throw Error{invalid}.
class ParameterServer {
 public:
  /// A NaN as a number of seconds is a wrong argument.
  struct Options {
    std::vector<int> servers = {};  ///< ranks; empty: all
    std::vector<int> workers = {};  ///< ranks; empty: all
    ServerRules rules = {};         ///< for servers, besides standard_rules(); the same on all servers
    /// For servers: texts that join() returns to the workers, for example the number of steps between two pushes.
    std::map<std::string, std::string> settings = {};
    bool join = true;  ///< true: the constructor calls join() on workers
    /// Seconds that a worker waits for a reply before its request fails. Default: the communicator's timeout.
    std::optional<double> timeout = {};
    /// Seconds without a message after which a server treats a worker as dead, for example if it is stopped or its host
    /// is down. Workers must have the same value, because they send four heartbeats in this time, on a thread of their
    /// own. If a worker that was treated as dead runs again, its next call throws. 0: servers wait forever.
    double silence = 0;
    /// For servers: the number of processes from outside the communicator that may join as workers while the servers
    /// run. Joined workers are numbered from the communicator's size on; rules see these numbers in PushMeta::worker.
    int joins = 0;
  };

  /// Collective over `group`, with the same servers and workers on all ranks; blocks until they are connected.
  ParameterServer(Communicator& group, const Options& options);
  /// Joins running servers as an additional worker, from a process that is no rank of their communicator. `addresses`
  /// holds the address() of each server, in the servers' order. Only the options join, timeout and silence are used.
  /// workers() contains this worker's number only. Blocks until the worker is connected. Throws Error{peer_lost} if the
  /// servers have ended, and Error{invalid} if Options::joins workers have already joined.
  ///
  ///     // on a server:      file << server.address();
  ///     // on the newcomer:  ParameterServer late({line_of(file)}, {});
  ///     //                   Parameters w = late.open("w", count, DType::f32);
  ParameterServer(const std::vector<std::string>& addresses, const Options& options,
                  const Settings& settings = Settings::from_environment());
  /// On a worker: leaves for good. On a server: blocks until all its workers have left for good or died. During stack
  /// unwinding, a server fails its workers' outstanding requests instead, and a worker counts as dead.
  ~ParameterServer();
  ParameterServer(const ParameterServer&) = delete;
  ParameterServer& operator=(const ParameterServer&) = delete;

  bool is_server() const noexcept;
  bool is_worker() const noexcept;
  const std::vector<int>& servers() const noexcept;
  const std::vector<int>& workers() const noexcept;
  /// The address that a process needs to join: this server's hosts, port and secret as one text without blanks. Keep it
  /// secret: it permits to join. Empty on ranks that are no server, and if Options::joins is 0.
  const std::string& address() const noexcept;

  /// On a server: blocks until all its workers have left for good or died. On other ranks: returns at once.
  void serve();

  // The following functions are for workers.

  /// Joins the servers if this worker has not joined yet. Returns the settings of the first server.
  const std::map<std::string, std::string>& join();
  /// The settings that join() returned.
  const std::map<std::string, std::string>& settings() const;
  /// Closes all buffers for this worker, so that rounds and staleness bounds no longer wait for it. After the next
  /// join() it has to open them again.
  void leave();

  /// Opens the buffer of this name; the first worker to open it creates it, zeroed. All workers pass the same count,
  /// type and options. Blocks.
  Parameters open(std::string_view name, std::size_t count, DType dtype, const OpenOptions& options = {});

  /// Returns the whole state of the servers: values, versions, state of rules, and pushes that wait in a round. The
  /// dump is a consistent cut (Chandy & Lamport, 1985): it contains a prefix of each worker's calls, the same prefix at
  /// all servers, even if calls are in flight. The other workers need not take part, but their later requests are
  /// delayed until the dump is complete. Blocks. Throws Error{invalid} if another worker is making a dump.
  std::vector<std::byte> dump();
  /// Replaces the whole state of the servers by a dump and begins a new epoch. The servers must be as many as in the
  /// dump and have the same rules, and no worker may push meanwhile. Afterwards workers must open their buffers again,
  /// with the same count, type and options.
  void load(ConstBytes dump);

 private:
  class Impl;
  std::shared_ptr<Impl> impl_;
};

}  // namespace tutti
