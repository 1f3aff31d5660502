// ParameterServer: buffers that are kept, in shards, by some ranks, and that others push to and pull from when they
// like. After Li et al., "Scaling distributed machine learning with the parameter server", OSDI 2014, whose verbs these
// are.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "collectives/api/communicator.hpp"
#include "collectives/parameter_server/rule.hpp"
#include "collectives/parameter_server/sharding.hpp"

namespace tutti {

/// What one server said of its shard in a reply.
struct ShardVersion {
  int server = 0;             ///< its number among the servers
  std::uint64_t epoch = 0;    ///< versions of two epochs tell nothing of one another: load() begins a new one
  std::uint64_t version = 0;  ///< updates that the shard had got
  bool operator==(const ShardVersion&) const = default;
};

/// A push or pull in flight. Copies are handles of the same one.
///
/// Threads: any, but one at a time. Waiting twice is harmless. Until done() the buffers given to the call belong to the
/// library, and dropping the last handle waits for that. Errors: wait() throws what the server answered (Error{invalid}
/// for a rule or range that it does not have; the server goes on), or why it cannot be reached.
class [[nodiscard]] Request {
 public:
  Request() = default;  ///< done
  void wait() const;
  /// False: still running, and nothing is lost.
  bool wait_for(Seconds limit) const;
  bool done() const;

  /// Once it is done: of each server that took part, in their order.
  const std::vector<ShardVersion>& versions() const;
  /// The smallest of these versions; 0 where no server took part.
  std::uint64_t version() const;

  struct State;

 private:
  friend class Parameters;
  friend std::optional<std::size_t> wait_any(std::span<const Request> requests, Seconds limit);
  explicit Request(std::shared_ptr<State> state) : state_(std::move(state)) {}
  std::shared_ptr<State> state_;
};

/// The number of one of `requests` that is done; failed counts too. nullopt when `limit` has passed, and at once where
/// there are none.
std::optional<std::size_t> wait_any(std::span<const Request> requests, Seconds limit);

/// Of a push.
struct PushOptions {
  std::size_t offset = 0;  ///< of the data in the whole buffer
  PushMeta meta = {};
};

/// A buffer that is kept by the servers, as one worker sees it. Copies are handles of the same one.
///
/// The calls of one worker on one buffer take effect in their order; those on different buffers may overtake one
/// another. A server applies what it gets in one order, but servers do not agree among themselves: a pull may find a
/// push of another worker in some shards only. What a push that was waited for did, all pulls that begin afterwards
/// see. Threads: any.
class Parameters {
 public:
  const std::string& name() const noexcept;
  std::size_t count() const noexcept;
  DType dtype() const noexcept;
  /// One for each server, some may be empty.
  const std::vector<Range>& shards() const noexcept;

  /// Hands `data` to the rule of this name, at each server that has a part of it. Done once it has been applied: for a
  /// rule with a quorum, with its round. Data of another floating-point type is converted by the server. A rule that
  /// takes no data applies to the range that `data` would have; see push(rule).
  Request push(std::string_view rule, ConstBuffer data, const PushOptions& options = {}) const;
  /// To the whole buffer, without data, as "zero" wants it.
  Request push(std::string_view rule) const;
  /// The values of [offset, offset + into.count), in the buffer's type.
  Request pull(Buffer into, std::size_t offset = 0) const;
  /// Both in one round trip: the values after the push has been applied, or what the rule answers. `into` has the count
  /// of `data`, and may be the same memory where the types are the same.
  Request push_pull(std::string_view rule, ConstBuffer data, Buffer into, const PushOptions& options = {}) const;

  /// This worker is done with it: the servers forget it when all that opened it have said so. Waits.
  void free();

 private:
  friend class ParameterServer;
  struct State;
  explicit Parameters(std::shared_ptr<State> state) : state_(std::move(state)) {}
  std::shared_ptr<State> state_;
};

/// Beside name, count and type of what is opened; all but `counts` the same from all workers.
struct OpenOptions {
  /// Elements at each server, in their order; empty: even_shards().
  std::vector<std::size_t> shares = {};
  /// Stale synchronous parallel (Ho et al., 2013): a worker gets no reply while it has pushed more than so many times
  /// oftener than the slowest of those that have opened the buffer. A new one begins where the slowest is.
  std::optional<std::uint64_t> staleness = {};
  /// false: rounds and staleness do not wait for this worker, which pushes and pulls all the same.
  bool counts = true;
};

/// The ranks of a communicator of which some keep buffers and some work on them; one may do both.
///
/// A server does its work on a thread of its own, which sleeps in the kernel while nothing comes. Each worker and each
/// server are a group of their own, so that the death of one ends nothing but what was under way with it; for that the
/// job has to go on without it (`tutti run --keep-going`). What a worker that died had pushed in full stays.
///
/// Threads: any thread may call. Errors: wrong arguments throw Error{invalid}.
class ParameterServer {
 public:
  struct Options {
    std::vector<int> servers = {};  ///< ranks; empty: all
    std::vector<int> workers = {};  ///< ranks; empty: all
    ServerRules rules = {};         ///< of a server, beside the standard ones: the same on all servers
    /// Of a server: what workers are to know, such as the number of steps between two pushes.
    std::map<std::string, std::string> settings = {};
    bool join = true;  ///< a worker joins at once
    /// Seconds that a worker waits for a reply, which ends its group with that server; the communicator's otherwise.
    std::optional<double> timeout = {};
    /// Seconds after which a server gives a worker up from which nothing is heard, as if it had died: stopped, or on a
    /// host that has gone. Workers that have nothing to say tell that they live, on a thread of their own. When one
    /// that was given up goes on, its next call throws and says so. 0: servers wait for ever.
    double silence = 0;
    /// For servers: the number of processes from outside the communicator that may join as workers while the servers
    /// run. Joined workers are numbered from the communicator's size on; rules see these numbers in PushMeta::worker.
    int joins = 0;
  };

  /// Collective over `group`, with the same servers and workers on all ranks; blocks until they are connected.
  ParameterServer(Communicator& group, const Options& options);
  /// Joins running servers as one more worker, from a process that is no rank of their communicator. `addresses` holds
  /// the address() of each server, in the servers' order. Only the members join, timeout and silence of `options` are
  /// used. workers() contains this worker's number alone. Blocks until it is connected. Throws Error{peer_lost} if the
  /// servers have ended, Error{invalid} if Options::joins workers have joined already.
  ///
  ///     // on a server:      file << server.address();
  ///     // on the newcomer:  ParameterServer late({line_of(file)}, {});
  ///     //                   Parameters w = late.open("w", count, DType::f32);
  ParameterServer(const std::vector<std::string>& addresses, const Options& options,
                  const Settings& settings = Settings::from_environment());
  /// A worker leaves for good. A server stays until all workers have done so or have died. While an exception unwinds,
  /// a server ends what its workers wait for instead, and a worker counts as having died.
  ~ParameterServer();
  ParameterServer(const ParameterServer&) = delete;
  ParameterServer& operator=(const ParameterServer&) = delete;

  bool is_server() const noexcept;
  bool is_worker() const noexcept;
  const std::vector<int>& servers() const noexcept;
  const std::vector<int>& workers() const noexcept;
  /// The address that a process needs to join: this server's hosts, port and secret as one text without blanks. Whoever
  /// knows it may join. Empty on ranks that are no server, and if Options::joins is 0.
  const std::string& address() const noexcept;

  /// Of a server: returns when all workers have left for good or have died.
  void serve();

  // The rest is for workers.

  /// Takes part from here on; returns the settings of the first server. Harmless where it has joined already.
  const std::map<std::string, std::string>& join();
  /// The settings that join() returned.
  const std::map<std::string, std::string>& settings() const;
  /// Does not count any more, for quorums and staleness, until it joins again. What it has open it has to open again.
  void leave();

  /// The buffer of this name, which the first worker to open it makes, zeroed. All give the same count, type and
  /// options. Waits.
  Parameters open(std::string_view name, std::size_t count, DType dtype, const OpenOptions& options = {});

  /// All that the servers hold: values, versions, what rules keep, and pushes that wait in a round. A consistent cut
  /// (Chandy & Lamport, 1985): of each worker's calls it has the first ones, at all servers the same, whatever is under
  /// way meanwhile; nobody waits for it but who calls it. Only one worker makes one at a time. Waits; to be written to
  /// a file by the caller.
  std::vector<std::byte> dump();
  /// Puts what dump() gave in the place of all that the servers hold, and begins a new epoch. As many servers and
  /// the same rules are wanted. Nobody may push meanwhile; buffers of the dump are to be opened again, with the same
  /// count, type and options.
  void load(ConstBytes dump);

 private:
  class Impl;
  std::shared_ptr<Impl> impl_;
};

}  // namespace tutti
