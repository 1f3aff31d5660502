// Relay: takes what a group of workers has made to the top master, and brings back what other groups have made.
//
// The hierarchy is mpi_learn's (Anderson, Vlimant, Spiropulu: An MPI-Based Python Framework for Distributed Training
// with Keras, 2017): a top master, sub-masters, and workers, of which each group has one sub-master. There a sub-master
// forwards each update and then overwrites its parameters by the top's. Here both levels are of one kind, and what the
// group does while a relay is under way stays. Without LibTorch.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <vector>

#include "collectives/tutti_parameter_server.hpp"
#include "engine/strategies/served_report.hpp"

namespace tutti::engine {

/// With c the group's parameters, C the top's, and b the C that the group got last (at first: where all began), after
/// every `every` updates of c, and once more when all workers of the group are through:
///
///     deltas    D = b - c;  C -= rate D;  c += C - c, b = C
///     elastic   d = elastic (c - C);  C += d;  c -= d elastic_here / elastic
///
/// What is added to c was computed from c as it was when the relay began, so pushes of workers that come meanwhile stay
/// in it, and are in the next D or d. So with deltas, one group and rate 1, C is c, but for rounding; and with elastic
/// and elastic_here = elastic, C plus all groups' c is the same before and after.
struct RelayNumbers {
  enum class Kind : std::uint8_t { deltas, elastic } kind = Kind::deltas;
  double rate = 1;
  double elastic = 0.5, elastic_here = 0.5;
  std::uint64_t every = 1;
};

/// The size and type of the parameters of one element type.
struct RelayPart {
  std::size_t count = 0;
  DType dtype = DType::f32;
};

/// The progress of a group: the server's thread counts updates, and the relay's thread waits for them. Any thread.
class GroupProgress {
 public:
  struct Seen {
    std::uint64_t updates = 0;
    bool is_over = false;  ///< all workers are through, or have gone
  };
  /// `workers`: the ranks that talk to the group's server.
  explicit GroupProgress(const std::vector<int>& workers) : workers_(workers.begin(), workers.end()), open_(workers_) {}

  bool has(int rank) const { return workers_.contains(rank); }
  void updated();
  void over(int rank);
  /// Blocks until the group has made `updates` updates in all, or all its workers are through or gone.
  Seen wait(std::uint64_t updates);

 private:
  const std::set<int> workers_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::set<int> open_;
  std::uint64_t updates_ = 0;
};

/// Wraps the rule that updates the group's parameters so that `progress` counts its updates. The rule's `parted` is
/// called for the group's workers only, not for the relay.
ServerRule with_progress(ServerRule rule, std::shared_ptr<GroupProgress> progress);
/// The rule by which a worker says that it is through; its pushes carry no data.
ServerRule over_rule(std::shared_ptr<GroupProgress> progress);
std::string over_rule_name();

/// The members at the top master: the sub-masters, and the workers that read its parameters. Any thread.
class TopMembers {
 public:
  TopMembers(const std::vector<int>& submasters, std::size_t workers)
      : submasters_(submasters.begin(), submasters.end()), there_(submasters.size() + workers) {}
  void parted(int rank, Parting how);
  /// Waits until all have gone. Throws Error{peer_lost} as soon as a sub-master has died, with its rank as the culprit.
  void wait();

 private:
  const std::set<int> submasters_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::size_t there_;
  int fallen_ = -1;
  Parting how_ = Parting::left;
};

/// The rules of the top master's server, for `parts` element types.
ServerRules top_rules(const RelayNumbers& numbers, std::size_t parts, std::shared_ptr<TopMembers> members);

/// A worker's connection to the top master, by which it reads the parameters and waits for the end of training.
class TopSeat {
 public:
  /// `worker`: its number in the whole run. Waits.
  TopSeat(std::shared_ptr<ParameterServer> top, int worker);
  Parameters open(std::size_t part, std::size_t count, DType dtype) const;
  /// Waits until all sub-masters have made their last exchange and all workers wait here or have gone; the number of
  /// the first one that waits.
  int end();

 private:
  const std::shared_ptr<ParameterServer> top_;
  const double worker_;
  const Parameters end_;
  int told_ = -1;
};

/// The part of a sub-master that exchanges with the top master. It is a worker of the top, and pushes to its own
/// group's server without counting in the group's rounds. For one thread.
class Relay {
 public:
  struct Place {
    std::shared_ptr<ParameterServer> top, group;
    std::shared_ptr<GroupProgress> progress;
  };
  /// Waits.
  Relay(const RelayNumbers& numbers, Place place, const std::vector<RelayPart>& parts);

  /// Pushes the parameters that all groups begin with, one buffer for each part. One relay calls it, before any
  /// begin().
  void bring(const std::vector<ConstBuffer>& values);
  /// The group's parameters become the top's.
  void begin();
  /// One exchange.
  void exchange();
  /// Exchanges until all workers are through, once more then, and takes part in the end no longer.
  void run();

  const ServedReport& report() const noexcept { return report_; }

 private:
  struct Part {
    Parameters top, group;
    RelayPart of;
    std::vector<std::byte> base, here, there, change;  // b; c as it was; what came from the top; what is added to c
    std::uint64_t seen = 0;                            // the top's version of b
  };
  void exchange(Part& part, const std::string& rule);
  void note(Part& part, const Request& pushed);

  const RelayNumbers numbers_;
  const Place place_;
  std::vector<Part> parts_;
  Parameters end_;
  ServedReport report_;
};

}  // namespace tutti::engine
