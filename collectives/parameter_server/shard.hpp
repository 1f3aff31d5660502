// Shard: one server's part of one buffer. It decides when a push is applied and when a reply is sent.
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "collectives/parameter_server/block.hpp"
#include "collectives/parameter_server/serialization.hpp"
#include "tutti/clock.hpp"
#include "tutti/parameter_server.hpp"

namespace tutti {

/// A reply that is ready to be sent.
struct Answer {
  int worker = -1;
  std::uint64_t sequence = 0;
  Code code = Code::ok;
  std::string text = {};
  std::uint64_t version = 0;
  Block memory = {};       ///< holds `values`; the shard does not write to it while the answer exists
  ConstBytes values = {};  ///< within `memory`
};
using Answers = std::vector<Answer>;

/// Does not communicate and reads no clock, so that a test can call it with any order of arrivals and any times.
/// Appends replies that become ready to `answers`. Threads: one at a time.
class Shard {
 public:
  struct Place {
    int server = 0;
    Range range = {};  ///< in the whole buffer
    DType dtype = DType::f32;
    std::optional<std::uint64_t> staleness = {};
  };
  struct Push {
    std::uint64_t sequence = 0;  ///< 0: no reply is wanted
    std::string name = {};       ///< name of the rule
    const ServerRule* rule = nullptr;
    Range range = {};  ///< in the whole buffer, within the shard's range
    Block data = {};
    DType dtype = DType::f32;  ///< type of `data`
    PushMeta meta = {};
    bool wants_values = false;
  };

  explicit Shard(const Place& place);

  const Place& place() const noexcept { return place_; }
  std::uint64_t version() const noexcept { return version_; }
  Block values() const noexcept { return values_; }

  /// Opens the buffer for a worker. The worker's number of pushes starts with that of the slowest worker. Without
  /// `counts`, rounds and the staleness bound do not wait for this worker.
  void enter(int worker, bool counts = true);
  /// Closes the buffer for a worker that has it open. The worker's pushes stay, including those that wait in a round.
  void part(int worker, Clock::time_point now, Answers& answers);
  bool has(int worker) const { return pushes_.contains(worker) || guests_.contains(worker); }
  /// The pushes by this rule that wait in a round, in the order of their arrival. Valid until the shard changes.
  std::vector<Pushed> waiting(const std::string& rule) const;
  bool is_open() const noexcept { return !pushes_.empty() || !guests_.empty(); }
  std::size_t workers() const noexcept { return pushes_.size(); }  ///< number of workers that entered with `counts`

  /// Applies a push, or lets it wait in a round if the rule has a quorum or a grace period. The answer is an error if
  /// the data have the wrong size or type, or if the rule has a quorum and the range is not the whole shard.
  void push(Push push, Clock::time_point now, Answers& answers);
  void pull(int worker, std::uint64_t sequence, const Range& range, Answers& answers);

  /// Writes the whole state except the workers and their outstanding replies. The state includes the pushes that wait
  /// in a round; after restore() no worker gets a reply to them.
  void save(Serializer& archive) const;
  /// Replaces the state. `rule_of` returns the rule with a name, or throws. Throws Error{protocol} or Error{invalid} if
  /// the saved state does not match this shard and the rules.
  void restore(Deserializer& archive, const std::function<const ServerRule&(const std::string&)>& rule_of);

  /// The earliest deadline of a round, or never. tick() has to be called at that time; it applies the rounds that are
  /// due.
  Deadline due() const noexcept;
  void tick(Clock::time_point now, Answers& answers);

 private:
  struct Round {
    std::vector<Push> pushed;
    std::deque<Push> next;  // further pushes of workers that have one in `pushed`, for later rounds
    Deadline until = never;
  };
  struct RuleState {
    std::vector<Block> slots;
    std::vector<double> scalars;
    Round round;
  };
  struct Held {
    int worker = -1;
    Answer answer;
    bool reads = false;  // true: the answer contains the values at the time when it is sent
    Range range = {};
  };

  std::size_t width() const noexcept { return size_of(place_.dtype); }
  std::string why_not(const Push& push) const;
  RuleState& state_of(const Push& push);
  void join_round(Push push, Clock::time_point now, Answers& answers);
  bool closes(const ServerRule& rule, Round& round, Clock::time_point now) const;
  void close_rounds(RuleState& state, Clock::time_point now, Answers& answers);
  void apply(std::vector<Push> pushed, Answers& answers);
  Buffer part_of(const Block& block, DType dtype, const Range& range) const noexcept;
  void write_values();
  bool is_ahead(int worker) const;
  void answer(Held held, Answers& answers);
  void release(Answers& answers);
  void send(Held held, Answers& answers);

  Place place_;
  Block values_;
  std::uint64_t version_ = 0;
  std::map<std::string, RuleState> rules_;
  std::map<int, std::uint64_t> pushes_;  // by worker that entered with `counts`: how many of its pushes were applied
  std::set<int> guests_;                 // workers that entered without `counts`
  std::vector<Held> held_;               // replies to workers that exceed the staleness bound
};

}  // namespace tutti
