// Shard: one server's part of one buffer, and when which push takes effect and which reply may go.
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "collectives/parameter_server/block.hpp"
#include "collectives/parameter_server/letters.hpp"
#include "collectives/parameter_server/parameter_server.hpp"
#include "transports/core/clock.hpp"

namespace tutti {

/// A reply that may go.
struct Answer {
  int worker = -1;
  std::uint64_t sequence = 0;
  Code code = Code::ok;
  std::string text = {};
  std::uint64_t version = 0;
  Block memory = {};       ///< of the values; a shard never changes memory that an answer holds
  ConstBytes values = {};  ///< in it
};
using Answers = std::vector<Answer>;

/// Knows nothing of messages and reads no clock, so that arrivals can be played to it. What becomes ready goes to the
/// back of `answers`. Not for several threads.
class Shard {
 public:
  struct Place {
    int server = 0;
    Range range = {};  ///< in the whole buffer
    DType dtype = DType::f32;
    std::optional<std::uint64_t> staleness = {};
  };
  struct Push {
    std::uint64_t sequence = 0;  ///< 0: nobody waits for a reply
    std::string name = {};       ///< of the rule
    const ServerRule* rule = nullptr;
    Range range = {};  ///< within the shard's, in the whole buffer
    Block data = {};
    DType dtype = DType::f32;  ///< of the data
    PushMeta meta = {};        ///< the worker among it
    bool wants_values = false;
  };

  explicit Shard(const Place& place);

  const Place& place() const noexcept { return place_; }
  std::uint64_t version() const noexcept { return version_; }
  Block values() const noexcept { return values_; }

  /// Workers that have it open. One that comes counts as having pushed as often as the slowest; without `counts`
  /// nobody waits for it.
  void enter(int worker, bool counts = true);
  /// For one that is not there it has no effect. What it has pushed stays.
  void part(int worker, Clock::time_point now, Answers& answers);
  bool has(int worker) const { return pushes_.contains(worker) || guests_.contains(worker); }
  bool is_open() const noexcept { return !pushes_.empty() || !guests_.empty(); }
  std::size_t workers() const noexcept { return pushes_.size(); }  ///< that count

  /// A push whose data do not fit, or that does not cover the shard though its rule has a quorum, is answered so.
  void push(Push push, Clock::time_point now, Answers& answers);
  void pull(int worker, std::uint64_t sequence, const Range& range, Answers& answers);

  /// All but who has it open and what it owes them: of what waits in rounds, that is the reply.
  void save(LetterWriter& letter) const;
  /// In the place of what there is. `rule_of` gives the rule of a name, or throws. Throws Error{protocol}.
  void restore(LetterReader& letter, const std::function<const ServerRule&(const std::string&)>& rule_of);

  /// When tick() has something to do, if nothing comes before.
  Deadline due() const noexcept;
  void tick(Clock::time_point now, Answers& answers);

 private:
  struct Round {
    std::vector<Push> pushed;
    std::deque<Push> next;  // of workers that are in `pushed` already
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
    bool reads = false;  // the values as they are when it goes
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
  std::map<int, std::uint64_t> pushes_;  // by worker: how often each has pushed
  std::set<int> guests_;                 // that do not count
  std::vector<Held> held_;               // replies to those that are ahead
};

}  // namespace tutti
