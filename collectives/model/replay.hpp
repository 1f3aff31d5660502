// Replay: plays the schedules of all ranks of one collective on a model of the network, without data.
#pragma once

#include <algorithm>
#include <cstddef>
#include <functional>
#include <string>

#include "collectives/model/network.hpp"
#include "collectives/plan/algorithm.hpp"
#include "collectives/plan/geometry.hpp"
#include "collectives/plan/lanes.hpp"
#include "tutti/topology.hpp"

namespace tutti::model {

/// Where a message from one rank to another goes.
inline Level level_between(const Hosts& hosts, int from, int to) {
  const int host = hosts.host_of(from), other = hosts.host_of(to);
  if (host == other) return Level::within;
  return hosts.share_a_rack(host, other) ? Level::between : Level::beyond;
}

/// A call as all ranks make it. `shape.rank` is ignored.
struct Collective {
  const Algorithm* algorithm = nullptr;
  Shape shape;                ///< with its hosts
  std::size_t width = 4;      ///< bytes of an element
  Lanes lanes;                ///< as lanes_of() says
  std::size_t max_lanes = 4;  ///< that a rank plays at a time, as lanes_at_once() says

  /// The ways that its lanes go, and how many lanes a rank really plays at a time.
  std::size_t ways() const { return std::min(static_cast<std::size_t>(ways_of(*algorithm, shape)), lanes.number); }
  /// All hosts do the same, so that one shows what all do.
  bool is_alike() const {
    const Hosts& hosts = hosts_of(shape);
    return algorithm->alike && hosts.count() > 1 && hosts.is_cartesian() && hosts.in_blocks() &&
           hosts.above() == nullptr;
  }
  std::size_t at_once() const { return lanes_in_play(lanes.number, max_lanes, ways()); }
};

/// One message, when it is with its receiver. Times are seconds from the start of the call.
struct Message {
  int from, to;
  std::size_t lane;
  int round;  ///< of the sender
  std::size_t bytes;
  Level level;
  bool folds;         ///< the receiver folds it into something
  double begin, end;  ///< when its sender begins, and when the receiver has all of it
};

/// Sums over all ranks, and the longest chain.
struct Counts {
  std::size_t messages[levels] = {};  ///< sent, by level
  std::size_t bytes[levels] = {};     ///< sent, by level
  std::size_t most_from_host = 0;     ///< bytes that the busiest host sends to others
  std::size_t most_from_rack = 0;     ///< bytes that the busiest rack sends to others
  std::size_t most_from_rank = 0;     ///< bytes that the busiest rank sends
  std::size_t most_messages = 0;      ///< that one rank sends
  std::size_t folded = 0;             ///< bytes, of results
  std::size_t copied = 0;             ///< bytes
  int rounds = 0;                     ///< the most that one rank plays in one lane
  int chain = 0;                      ///< messages in the longest chain of dependent ones
  std::size_t scratch = 0;            ///< bytes of the rank that needs most, for all lanes that run at a time
};

struct Outcome {
  double seconds = 0;  ///< until the last rank is done
  Counts counts;
  bool by_alike = false;  ///< played for the ranks of one host, as those of all others do the same
  std::string stuck;      ///< empty, or which rank waits for whom for ever
};

/// Called with every message in the order of their ends.
using See = std::function<void(const Message&)>;

/// Plays the call. All ranks begin at once, messages wait in unbounded buffers, and a rank plays up to `max_lanes`
/// lanes at a time. Takes about a microsecond a message.
///
/// Where the algorithm is alike on all hosts (Algorithm::alike), all hosts have equally many ranks in blocks, and there
/// are no racks, only one host is played if `whole` is false: what its ranks send to other hosts is taken to arrive at
/// it. Sums are then those of one host times the number of hosts.
Outcome replay(const Collective& call, const Network& network, bool whole = false, const See& see = {});

/// Empty, or what is wrong with the plan: an element of a result that lacks a rank's contribution or has it twice, a
/// message that nobody receives, a deadlock if sends wait for their receives, or one if they do not. All elements carry
/// random numbers of 64 bits for values, whose sums say which contributions they have; so memory is 8 bytes an element
/// of all ranks' buffers.
std::string check(const Collective& call);

}  // namespace tutti::model
