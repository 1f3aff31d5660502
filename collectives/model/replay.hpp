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

/// The level of a message from one rank to another.
inline Level level_between(const Hosts& hosts, int from, int to) {
  const int host = hosts.host_of(from), other = hosts.host_of(to);
  if (host == other) return Level::within;
  return hosts.share_a_rack(host, other) ? Level::between : Level::beyond;
}

/// A call of all ranks, whose buffer is cut into lanes: parts that run independently. `shape.rank` is ignored.
struct Collective {
  const Algorithm* algorithm = nullptr;
  Shape shape;                ///< including the hosts
  std::size_t width = 4;      ///< bytes of an element
  Lanes lanes;                ///< the result of lanes_of()
  std::size_t max_lanes = 4;  ///< the most lanes that a rank plays at a time: the result of lanes_at_once()

  /// The number of different schedules ("ways") of the lanes (see Algorithm::ways).
  std::size_t ways() const { return std::min(static_cast<std::size_t>(ways_of(*algorithm, shape)), lanes.number); }
  /// True if all hosts do the same, so that playing one host is enough.
  bool is_alike() const {
    const Hosts& hosts = hosts_of(shape);
    return algorithm->alike && hosts.count() > 1 && hosts.is_cartesian() && hosts.in_blocks() &&
           hosts.above() == nullptr;
  }
  /// The number of lanes that a rank plays at a time.
  std::size_t at_once() const { return lanes_in_play(lanes.number, max_lanes, ways()); }
};

/// A message that has been received. Times are seconds from the start of the call.
struct Message {
  int from, to;
  std::size_t lane;
  int round;  ///< of the sender
  std::size_t bytes;
  Level level;
  bool folds;         ///< the receiver folds the data (recv_reduce)
  double begin, end;  ///< when it begins to occupy a link, and when the receiver has received and folded it
};

/// Sums over all ranks, and the longest chain.
struct Counts {
  std::size_t messages[levels] = {};  ///< sent, by level
  std::size_t bytes[levels] = {};     ///< sent, by level
  std::size_t most_from_host = 0;     ///< bytes that the busiest host sends to others
  std::size_t most_from_rack = 0;     ///< bytes that the busiest rack sends to others
  std::size_t most_from_rank = 0;     ///< bytes that the busiest rank sends
  std::size_t most_messages = 0;      ///< the most messages that one rank sends
  std::size_t folded = 0;             ///< bytes of the results of all folds
  std::size_t copied = 0;             ///< bytes of all copies
  int rounds = 0;                     ///< the most rounds of one rank in one lane
  int chain = 0;                      ///< messages in the longest chain of dependent messages
  std::size_t scratch = 0;            ///< the most bytes of scratch of one rank, for all lanes that it plays at a time
};

struct Outcome {
  double seconds = 0;  ///< until the last rank is done
  Counts counts;
  bool by_alike = false;  ///< only the ranks of one host were played, because all hosts do the same
  std::string stuck;      ///< empty, or a deadlock: a rank that waits for ever, with its round and lane
};

/// Called once for every message, when its receiver begins to process it. Calls are not sorted by Message::end.
using See = std::function<void(const Message&)>;

/// Plays the call. All ranks begin at time 0, and a rank plays up to `max_lanes` lanes at a time. Messages that arrive
/// before their receives are posted wait in unbounded buffers. Takes about a microsecond for each message.
///
/// If `whole` is false, call.is_alike() holds and no two hosts share cores, only one host is played. A message of its
/// ranks to another host is then received on the host itself, by the rank with the receiver's local index. Sums are
/// those of one host times the number of hosts.
Outcome replay(const Collective& call, const Network& network, bool whole = false, const See& see = {});

/// Checks the plans of a call. Returns an empty string or the first defect: an element of a result lacks a rank's
/// contribution or has it twice, a message is never received, a slice is outside its memory, a rank writes to `in`, or
/// there is a deadlock. Runs each plan with synchronous and with buffered sends. Contributions are pseudorandom numbers
/// of 64 bits, so that a sum shows which it has. Takes 8 bytes of memory for each element of all ranks' buffers.
std::string check(const Collective& call);

}  // namespace tutti::model
