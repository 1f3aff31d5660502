// SubmasterExchange: exchanges the parameters of a group of workers with the top master's.
//
// The hierarchy is that of mpi_learn (Anderson, Vlimant, Spiropulu: An MPI-Based Python Framework for Distributed
// Training with Keras, 2017): a top master, and groups of workers with one sub-master each. In mpi_learn a sub-master
// forwards each update and then overwrites its parameters with the top master's. Here a sub-master keeps the updates of
// its group that arrive during an exchange with the top master. Does not use LibTorch.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <vector>

#include "engine/server/exchanges.hpp"
#include "tutti/parameter_server.hpp"

namespace tutti::engine {

/// What a sub-master exchanges with the top master after every `every` updates of the group's parameters c, and once
/// more when all workers of the group have finished. C is the top's parameters; b is the C that the group received
/// last.
///
///     deltas    D = b - c';  C -= rate D;  c += C - c', b = C
///     elastic   d = elastic (c' - C);  C += d;  c -= d elastic_here / elastic
///
/// c' is a copy of c, from which the change is computed. Pushes that arrive meanwhile stay in c, and are part of the
/// next D or d. With deltas, one group and rate 1, an exchange therefore makes C equal to c except for rounding. With
/// elastic and elastic_here = elastic, an exchange conserves the sum of C and all groups' c.
struct SubmasterNumbers {
  enum class Kind : std::uint8_t { deltas, elastic } kind = Kind::deltas;
  double rate = 1;
  double elastic = 0.5, elastic_here = 0.5;
  std::uint64_t every = 1;
};

/// The size and type of the parameters of one element type.
struct BufferSpec {
  std::size_t count = 0;
  DType dtype = DType::f32;
};

/// The progress of a group: the server's thread counts updates, and the sub-master's thread waits for them.
/// Thread-safe.
class GroupProgress {
 public:
  struct Seen {
    std::uint64_t updates = 0;
    bool is_over = false;  ///< all workers have finished or are gone
  };
  /// `workers`: the world ranks that communicate with the group's server.
  explicit GroupProgress(const std::vector<int>& workers) : workers_(workers.begin(), workers.end()), open_(workers_) {}

  bool has(int rank) const { return workers_.contains(rank); }
  void updated();
  void over(int rank);
  /// Blocks until the group has made `updates` updates in all, or all its workers have finished or are gone.
  Seen wait(std::uint64_t updates);

 private:
  const std::set<int> workers_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::set<int> open_;
  std::uint64_t updates_ = 0;
};

/// Wraps the rule that updates the group's parameters so that `progress` counts the updates. The rule's `parted` is
/// called for the group's workers only, not for the sub-master itself.
ServerRule with_progress(ServerRule rule, std::shared_ptr<GroupProgress> progress);
/// Returns the rule that a worker pushes to, without data, when it has finished.
ServerRule over_rule(std::shared_ptr<GroupProgress> progress);
std::string over_rule_name();

/// Tracks the members of the top master's parameter server: sub-masters and workers. Workers only read, except for one
/// push when they have finished. Thread-safe.
class TopMembers {
 public:
  TopMembers(const std::vector<int>& submasters, std::size_t workers)
      : submasters_(submasters.begin(), submasters.end()), there_(submasters.size() + workers) {}
  void parted(int rank, Parting how);
  /// Returns true if the rank has died or has been given up as silent.
  bool is_lost(int rank);
  /// Blocks until all members are gone. Throws Error{peer_lost} with the sub-master's rank as soon as a sub-master has
  /// died or has been given up as silent.
  void wait();

 private:
  const std::set<int> submasters_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::set<int> lost_;
  std::size_t there_;
  int fallen_ = -1;
  Parting how_ = Parting::left;
};

/// Returns the rules of the top master's server, for `parts` element types.
ServerRules top_rules(const SubmasterNumbers& numbers, std::size_t parts, std::shared_ptr<TopMembers> members);

/// A worker's connection to the top master, to read its parameters and to wait for the end of training.
class TopConnection {
 public:
  /// `worker`: the worker's number in the whole run. Blocks.
  TopConnection(std::shared_ptr<ParameterServer> top, int worker);
  Parameters open(std::size_t part, std::size_t count, DType dtype) const;
  /// Blocks until all sub-masters have made their last exchange and all workers have called end() or are gone. Returns
  /// the lowest number among the live workers that have called it.
  int end();

 private:
  const std::shared_ptr<ParameterServer> top_;
  const double worker_;
  const Parameters end_;
  int told_ = -1;
};

/// A sub-master's exchanges with the top master. It is a client of the top master's server and of its own group's
/// server; rounds of the group do not wait for it. For one thread.
class SubmasterExchange {
 public:
  struct Place {
    std::shared_ptr<ParameterServer> top, group;
    std::shared_ptr<GroupProgress> progress;
  };
  /// Opens the buffers. Blocks.
  SubmasterExchange(const SubmasterNumbers& numbers, Place place, const std::vector<BufferSpec>& parts);

  /// Pushes the initial parameters to the top master, one buffer for each part. Exactly one sub-master calls it, before
  /// all begin().
  void bring(const std::vector<ConstBuffer>& values);
  /// Sets the group's parameters to the top master's.
  void begin();
  /// Makes one exchange with the top master. Blocks.
  void exchange();
  /// Exchanges until all workers of the group have finished, and then one last time. After that, TopConnection::end()
  /// no longer waits for this sub-master. Blocks.
  void run();

  const ExchangeReport& report() const noexcept { return report_; }

 private:
  struct Part {
    Parameters top, group;
    BufferSpec of;
    std::vector<std::byte> base, here, there, change;  // b; c'; the top master's reply; D, then the change of c
    std::uint64_t seen = 0;                            // the latest version received from the top master
  };
  void exchange(Part& part, const std::string& rule);
  void note(Part& part, const Request& pushed);

  const SubmasterNumbers numbers_;
  const Place place_;
  std::vector<Part> parts_;
  Parameters end_;
  ExchangeReport report_;
};

}  // namespace tutti::engine
