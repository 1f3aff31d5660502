// Scenario: what the ranks of one job do, and which faults they meet; all of it drawn from a seed.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "transports/core/chaos.hpp"
#include "tutti/collective.hpp"
#include "tutti/settings.hpp"

namespace tutti::testing {

/// One collective, or one set of messages. Ranks are those of the group.
struct CallPlan {
  Kind kind = Kind::barrier;
  DType dtype = DType::i32;
  Reduction op = sum;
  std::size_t count = 0;
  int root = 0;
  bool variable = false, in_place = false, shared = false;
  std::uint64_t seed = 0;  ///< of the values
};

struct MessagePlan {
  int from = 0, to = 0;
  CallPlan data;  ///< count, dtype and seed
};

/// What the members of a group do next. Every rank of the job plays all acts in order, and skips those of other groups.
struct Act {
  enum class What : std::uint8_t { call, batch, messages, any_source, make_group } what = What::call;
  int group = 0;                           ///< index in Scenario::groups; make_group: of the new one
  std::vector<CallPlan> calls = {};        ///< one, or those of the batch
  std::vector<MessagePlan> messages = {};  ///< any_source: all to one rank, each from another one
  int tag = 0;
};

/// A communicator. Members are ranks of the job. The first one is the world.
struct GroupPlan {
  enum class By : std::uint8_t { world, split, subgroup, dup, group } by = By::world;
  int parent = 0;  ///< index in Scenario::groups
  std::vector<int> members = {};
  std::vector<int> colors = {};  ///< split: of each rank of the parent; the group is of those with color 0
  int rank_of(int world) const;
};

struct Scenario {
  std::uint64_t seed = 0;
  bool processes = false;
  int ranks = 2;
  std::string transport;   ///< inproc, shm, tcp; hosts: shm within two hosts, tcp between them
  std::vector<int> hosts;  ///< of each process
  Chaos chaos;
  bool has_chaos = false;
  Settings settings;
  std::vector<GroupPlan> groups;
  std::vector<Act> acts;
  bool shrinks = false;  ///< at the end, the ranks that are left shrink the world and use what is left of it
  int newcomers = 0;     ///< processes that they let in then, numbered from `ranks` on
  /// The death of one process in that time: so many microseconds after the process begins with it, whatever it does
  /// then. Process -1: none.
  struct Late {
    int process = -1;
    int microseconds = 0;
  } late;

  /// True if a rank or a link is to fail.
  bool is_deadly() const {
    return chaos.kill.rank >= 0 || chaos.stop.rank >= 0 || chaos.lose.rank >= 0 || chaos.cut.a >= 0;
  }
  bool refuses_memory() const { return chaos.memory > 0 || chaos.memory_nth > 0; }
  /// True if a communicator may fail. All groups are then made at the beginning: the members of one that is made
  /// meanwhile could not know who of them has made it.
  bool may_fail() const { return is_deadly() || refuses_memory(); }
  /// True if ranks may be lost, alive or not, while the others live.
  bool may_lose_ranks() const { return chaos.kill.rank >= 0 || chaos.lose.rank >= 0 || late.process >= 0; }
  /// True if the process may be lost, alive or not.
  bool may_lose(int process) const {
    return process >= 0 && (process == chaos.kill.rank || process == chaos.lose.rank || process == late.process);
  }
  int processes_in_all() const { return ranks + newcomers; }
  /// The settings of one process.
  Settings settings_of(int process) const;
  /// One line that says what is played, for people.
  std::string text() const;
};

Scenario draw_scenario(std::uint64_t seed, bool processes);

}  // namespace tutti::testing
