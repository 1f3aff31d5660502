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

/// Of the parameters of one element type.
struct RelayPart {
  std::size_t count = 0;
  DType dtype = DType::f32;
};

/// How far a group is. Its server's thread tells, and the relay's waits. Any thread.
class GroupProgress {
 public:
  struct Seen {
    std::uint64_t updates = 0;
    bool is_over = false;  ///< all workers are through, or have gone
  };
  /// The ranks of its workers that talk to the server.
  explicit GroupProgress(const std::vector<int>& workers) : workers_(workers.begin(), workers.end()), open_(workers_) {}

  bool has(int rank) const { return workers_.contains(rank); }
  void updated();
  void over(int rank);
  /// Waits until there have been so many updates, or all is over.
  Seen wait(std::uint64_t updates);

 private:
  const std::set<int> workers_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::set<int> open_;
  std::uint64_t updates_ = 0;
};

/// Wraps the rule by which the group's parameters are updated. What it does when one has gone is done for the group's
/// workers alone, and not for the relay.
ServerRule with_progress(ServerRule rule, std::shared_ptr<GroupProgress> progress);
/// By which a worker says that it is through; takes no data.
ServerRule over_rule(std::shared_ptr<GroupProgress> progress);
std::string over_rule_name();

/// Who takes part at the top: the sub-masters, and the workers that look at its parameters. Any thread.
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

/// Of the top's server, for so many element types.
ServerRules top_rules(const RelayNumbers& numbers, std::size_t parts, std::shared_ptr<TopMembers> members);

/// A worker at the top: it looks at the parameters, and waits for the end.
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

/// A sub-master's, which is a worker of the top and a guest of its own group's server. For one thread.
class Relay {
 public:
  struct Place {
    std::shared_ptr<ParameterServer> top, group;
    std::shared_ptr<GroupProgress> progress;
  };
  /// Waits.
  Relay(const RelayNumbers& numbers, Place place, const std::vector<RelayPart>& parts);

  /// What all groups begin with, one buffer for each part: of one relay, before the others begin().
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
