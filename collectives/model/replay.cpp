// Replay: see replay.hpp. Events are processed in the order of their times, and occupy links and cores in that order.
// Lanes are the parts of a call's buffer that run independently; they use several schedules in turn, called ways.
#include "collectives/model/replay.hpp"

#include <algorithm>
#include <queue>
#include <unordered_map>
#include <vector>

#include "collectives/model/cores.hpp"
#include "collectives/plan/geometry.hpp"
#include "tutti/topology.hpp"

namespace tutti::model {
namespace {

using Verb = Step::Verb;

/// One lane on one rank.
struct Player {
  const Schedule* plan = nullptr;
  std::size_t lane = 0;
  int round = 0, played = 0;
  int open = 0;      // steps of the current round that are not done
  double until = 0;  // time at which the last step so far was done
  int chain = 0;     // messages in the longest chain up to the beginning of the round
  int next_chain = 0;
};

/// The state of a rank, with its processor and links, which serve one message at a time.
struct Rank {
  std::vector<Schedule> plans;  // by way, for lanes of full length; then by way for the last lane if it is shorter
  std::vector<Player> slots;
  std::size_t next_lane = 0;
  double cpu = 0, leaving = 0, arriving = 0;  // times until which the processor and the two links are occupied
  std::size_t bytes = 0, messages = 0;
  double until = 0;
};

/// The link of a host, or of a rack, to the others.
struct HostLink {
  double leaving = 0, arriving = 0;
  std::size_t bytes = 0;
};

struct Flying {
  Message message;
  int chain = 0;
  double passed = 0;     // time at which all of it has passed the links of the racks
  std::size_t slot = 0;  // the sender's slot
};

/// A receive that waits for its message, or an arrived message that waits for its receive.
struct Waiting {
  bool is_receive;
  std::size_t slot;  // of a receive: slot of `rank`
  int rank;
  bool folds;
  std::size_t flying;  // of a message that has arrived: index in flying_
};

struct Event {
  enum class What { round, departure, leaving_rack, entering_rack, arrival, landing } what;
  double time;
  std::size_t order;
  int rank;           // used for What::round only
  std::size_t index;  // for What::round a slot, else an index in flying_
  bool operator>(const Event& other) const noexcept {
    return time != other.time ? time > other.time : order > other.order;
  }
};

class Replay {
 public:
  Replay(const Collective& call, const Network& network, bool whole, const See& see)
      : call_(call),
        net_(network),
        see_(see),
        hosts_(hosts_of(call.shape)),
        by_alike_(!whole && call.is_alike() && Cores::are_by_host(network)),
        ways_(call.ways()),
        links_(static_cast<std::size_t>(by_alike_ ? 1 : hosts_.count())),
        racks_(static_cast<std::size_t>(hosts_.above() != nullptr ? hosts_.above()->count() : 0)),
        cores_(network, hosts_, links_.size()) {
    const int size = by_alike_ ? hosts_.largest() : call.shape.size;
    ranks_.resize(static_cast<std::size_t>(size));
    for (int rank = 0; rank < size; ++rank) prepare(rank);
  }

  Outcome play() {
    for (int rank = 0; rank < static_cast<int>(ranks_.size()); ++rank)
      for (std::size_t slot = 0; slot < at(rank).slots.size(); ++slot) next_lane(rank, slot, 0);
    while (!events_.empty()) {
      const Event event = events_.top();
      events_.pop();
      if (event.what == Event::What::round) begin_round(event.rank, event.index, event.time);
      if (event.what == Event::What::departure) depart(event.index, event.time);
      if (event.what == Event::What::leaving_rack) leave_rack(event.index, event.time);
      if (event.what == Event::What::entering_rack) enter_rack(event.index, event.time);
      if (event.what == Event::What::arrival) arrive(event.index, event.time);
      if (event.what == Event::What::landing) land(event.index, event.time);
    }
    return outcome();
  }

 private:
  /// Occupies the rank's processor and a core of its host for `busy` seconds; returns the time at which that ends.
  double compute(int rank, double time, double busy) {
    double& until = at(rank).cpu;
    return until = cores_.take(hosts_.host_of(rank), std::max(until, time), busy);
  }

  Rank& at(int rank) { return ranks_[static_cast<std::size_t>(rank)]; }
  HostLink& link_of(int rank) { return links_[by_alike_ ? 0 : static_cast<std::size_t>(hosts_.host_of(rank))]; }
  bool is_played(int rank) const { return rank < static_cast<int>(ranks_.size()); }
  HostLink& rack_of(int rank) {
    return racks_[static_cast<std::size_t>(hosts_.above()->host_of(hosts_.host_of(rank)))];
  }
  Level level(int from, int to) const { return level_between(hosts_, from, to); }
  /// link(): latency and overhead of a message. per_byte(): seconds for a byte on the link of a rank or host.
  const Link& link(Level level) const { return level == Level::beyond ? beyond_ : net_[level]; }
  double per_byte(Level level) const { return net_[level == Level::within ? level : Level::between].per_byte; }
  void at_time(double time, Event::What what, int rank, std::size_t index) {
    events_.push({what, time, order_++, rank, index});
  }

  void prepare(int rank) {
    const Lanes& lanes = call_.lanes;
    Shape shape = call_.shape;
    shape.rank = rank;
    const std::size_t rest = rest_of(lanes, shape.count);
    Rank& mine = at(rank);
    std::size_t scratch = 0;
    for (const std::size_t count : {lanes.count, rest}) {
      if (count == lanes.count && !mine.plans.empty()) break;
      shape.count = full(count);
      for (std::size_t way = 0; way < ways_; ++way) {
        shape.way = static_cast<int>(way);
        mine.plans.push_back(call_.algorithm->plan(shape));
        scratch = std::max(scratch, mine.plans.back().scratch());
      }
    }
    mine.slots.resize(call_.at_once());
    counts_.scratch = std::max(counts_.scratch, scratch * call_.width * mine.slots.size());
  }

  /// The count to plan with. If one host is played for all, no chunk may be empty: otherwise hosts do not do the same.
  std::size_t full(std::size_t count) const {
    const auto parts = call_.algorithm->parts;
    if (!by_alike_ || parts == nullptr || count == 0) return count;
    return std::max(count, static_cast<std::size_t>(parts(call_.shape)));
  }

  const Schedule& plan_of(const Rank& rank, std::size_t lane) const {
    const std::size_t each = ways_, way = lane % ways_;
    const bool is_rest = lane + 1 == call_.lanes.number && rank.plans.size() > each;
    return rank.plans[(is_rest ? each : 0) + way];
  }

  void next_lane(int rank, std::size_t slot, double time) {
    Rank& mine = at(rank);
    mine.until = std::max(mine.until, time);
    Player& player = mine.slots[slot];
    const bool is_first = player.plan == nullptr;
    const std::size_t lane = ways_ == 1 ? mine.next_lane : is_first ? slot : player.lane + mine.slots.size();
    if (lane >= call_.lanes.number) return;
    ++mine.next_lane;
    player = {};
    player.lane = lane;
    player.plan = &plan_of(mine, player.lane);
    at_time(time, Event::What::round, rank, slot);
  }

  void begin_round(int rank, std::size_t slot, double time) {
    Player& player = at(rank).slots[slot];
    for (; player.round < player.plan->rounds(); ++player.round) {
      player.until = time;
      player.open = 1;  // guard: the round must not end while its steps are made
      player.next_chain = player.chain;
      bool any = false;
      player.plan->play(player.round, [&](const Step& step) {
        any = true;
        ++player.open;
        take(rank, slot, step, time);
      });
      player.played += any ? 1 : 0;
      if (--player.open > 0) return;
      time = player.until;  // all steps have ended while they were made
      player.chain = player.next_chain;
    }
    counts_.rounds = std::max(counts_.rounds, player.played);
    counts_.chain = std::max(counts_.chain, player.chain);
    ++ended_;
    next_lane(rank, slot, time);
  }

  void take(int rank, std::size_t slot, const Step& step, double time) {
    const std::size_t bytes = step.slice.count * call_.width;
    if (step.is_local()) {
      (step.folds() ? counts_.folded : counts_.copied) += bytes;
      return step_done(rank, slot, compute(rank, time, static_cast<double>(bytes) * net_.fold_per_byte), 0);
    }
    if (step.verb == Verb::send) return send(rank, slot, step, time);
    const Waiting mine{true, slot, rank, step.folds(), 0};
    if (const auto other = meet(key_of(rank, step.peer, at(rank).slots[slot]), mine))
      receive(mine, other->flying, time);
  }

  void send(int rank, std::size_t slot, const Step& step, double time) {
    Rank& mine = at(rank);
    const Player& player = mine.slots[slot];
    const Level level = this->level(rank, step.peer);
    const std::size_t bytes = step.slice.count * call_.width;
    ++counts_.messages[static_cast<int>(level)];
    counts_.bytes[static_cast<int>(level)] += bytes;
    mine.bytes += bytes;
    ++mine.messages;
    if (level != Level::within) link_of(rank).bytes += bytes;
    if (level == Level::beyond) rack_of(rank).bytes += bytes;
    const std::size_t index = new_flying();
    flying_[index] = {
        {rank, step.peer, player.lane, player.round, bytes, level, false, 0, 0}, player.chain + 1, 0, slot};
    at_time(compute(rank, time, link(level).overhead), Event::What::departure, rank, index);
  }

  void depart(std::size_t index, double time) {
    Message& message = flying_[index].message;
    const double busy = static_cast<double>(message.bytes) * per_byte(message.level);
    double& port = message.level == Level::within ? at(message.from).leaving : link_of(message.from).leaving;
    const double gone = occupy(port, time, busy);
    message.begin = gone - busy;
    const bool leaves_rack = message.level == Level::beyond && beyond_.per_byte > 0;
    at_time(message.begin + (leaves_rack ? 0 : link(message.level).latency),
            leaves_rack ? Event::What::leaving_rack : Event::What::arrival, message.from, index);
    step_done(message.from, flying_[index].slot, gone, 0);
  }

  /// The link of a rack begins to forward a message when the first byte has arrived.
  void leave_rack(std::size_t index, double time) {
    const Message& message = flying_[index].message;
    const double busy = static_cast<double>(message.bytes) * beyond_.per_byte;
    const double gone = occupy(rack_of(message.from).leaving, time, busy);
    at_time(gone - busy + beyond_.latency, Event::What::entering_rack, message.from, index);
  }

  void enter_rack(std::size_t index, double time) {
    const Message& message = flying_[index].message;
    const double busy = static_cast<double>(message.bytes) * beyond_.per_byte;
    flying_[index].passed = occupy(rack_of(message.to).arriving, time, busy);
    at_time(flying_[index].passed - busy, Event::What::arrival, message.from, index);
  }

  void arrive(std::size_t index, double time) {
    const Message& message = flying_[index].message;
    const double busy = static_cast<double>(message.bytes) * per_byte(message.level);
    double& port = message.level == Level::within ? at(message.to).arriving
                                                  : link_of(by_alike_ ? message.from : message.to).arriving;
    at_time(std::max(occupy(port, time, busy), flying_[index].passed), Event::What::landing, message.to, index);
  }

  void land(std::size_t index, double time) {
    const Message& message = flying_[index].message;
    std::uint64_t key = 0;
    if (is_played(message.to)) {
      key = key_between(message.from, message.to, message.lane);
    } else {
      key = key_outside(message.lane, message.round, message.to % hosts_.largest());
    }
    if (const auto other = meet(key, {false, 0, 0, false, index})) receive(*other, index, time);
  }

  void receive(const Waiting& by, std::size_t index, double time) {
    Flying& flown = flying_[index];
    Message& message = flown.message;
    double busy = link(message.level).overhead;
    if (by.folds) {
      busy += static_cast<double>(message.bytes) * net_.fold_per_byte;
      counts_.folded += message.bytes;
    }
    message.folds = by.folds;
    message.end = compute(by.rank, time, busy);
    if (see_) see_(message);
    spare_.push_back(index);
    step_done(by.rank, by.slot, message.end, flown.chain);
  }

  void step_done(int rank, std::size_t slot, double time, int chain) {
    Player& player = at(rank).slots[slot];
    player.until = std::max(player.until, time);
    player.next_chain = std::max(player.next_chain, chain);
    if (--player.open > 0) return;
    ++player.round;
    player.chain = player.next_chain;
    at_time(player.until, Event::What::round, rank, slot);
  }

  /// Occupies a link for `busy` seconds, not before `time`. Returns, and sets `until` to, the time at which that ends.
  static double occupy(double& until, double time, double busy) { return until = std::max(until, time) + busy; }

  std::uint64_t key_between(int from, int to, std::size_t lane) const {
    const auto size = static_cast<std::uint64_t>(call_.shape.size) + 1;
    return (lane * size + static_cast<std::uint64_t>(from)) * size + static_cast<std::uint64_t>(to);
  }
  /// The key of a message to another host if one host is played for all. That host's rank with local index `index`
  /// receives the message.
  std::uint64_t key_outside(std::size_t lane, int round, int index) const {
    const auto most = static_cast<std::uint64_t>(hosts_.largest());
    return ~((lane << 32 | static_cast<std::uint64_t>(round)) * most + static_cast<std::uint64_t>(index));
  }
  /// The key of a receive.
  std::uint64_t key_of(int rank, int from, const Player& player) const {
    return is_played(from) ? key_between(from, rank, player.lane) : key_outside(player.lane, player.round, rank);
  }

  /// Returns the matching receive or message if one is waiting. Otherwise appends `mine` to those that wait.
  std::optional<Waiting> meet(std::uint64_t key, const Waiting& mine) {
    const auto [place, is_new] = waiting_.try_emplace(key);
    auto& queue = place->second;
    if (!queue.empty() && queue.front().is_receive != mine.is_receive) {
      const Waiting other = queue.front();
      queue.erase(queue.begin());
      if (queue.empty()) waiting_.erase(place);
      return other;
    }
    queue.push_back(mine);
    return std::nullopt;
  }

  std::size_t new_flying() {
    if (spare_.empty()) {
      flying_.emplace_back();
      return flying_.size() - 1;
    }
    const std::size_t index = spare_.back();
    spare_.pop_back();
    return index;
  }

  Outcome outcome() {
    Outcome result;
    result.by_alike = by_alike_;
    result.counts = counts_;
    Counts& counts = result.counts;
    for (const Rank& rank : ranks_) {
      result.seconds = std::max(result.seconds, rank.until);
      counts.most_from_rank = std::max(counts.most_from_rank, rank.bytes);
      counts.most_messages = std::max(counts.most_messages, rank.messages);
    }
    for (const HostLink& link : links_) counts.most_from_host = std::max(counts.most_from_host, link.bytes);
    for (const HostLink& rack : racks_) counts.most_from_rack = std::max(counts.most_from_rack, rack.bytes);
    if (by_alike_) {
      const auto hosts = static_cast<std::size_t>(hosts_.count());
      for (std::size_t* sum : {&counts.messages[0], &counts.messages[1], &counts.bytes[0], &counts.bytes[1],
                               &counts.folded, &counts.copied})
        *sum *= hosts;
    }
    if (ended_ < ranks_.size() * call_.lanes.number) result.stuck = who_is_stuck();
    return result;
  }

  std::string who_is_stuck() {
    for (std::size_t rank = 0; rank < ranks_.size(); ++rank)
      for (const Player& player : ranks_[rank].slots)
        if (player.plan != nullptr && player.open > 0 && player.round < player.plan->rounds())
          return "rank " + std::to_string(rank) + " waits for ever in round " + std::to_string(player.round) +
                 " of lane " + std::to_string(player.lane);
    return "not all lanes are played";
  }

  const Collective& call_;
  const Network& net_;
  const Link beyond_ = net_.beyond();
  const See& see_;
  const Hosts& hosts_;
  const bool by_alike_;
  const std::size_t ways_;
  std::vector<Rank> ranks_;
  std::vector<HostLink> links_, racks_;
  Cores cores_;
  std::priority_queue<Event, std::vector<Event>, std::greater<>> events_;
  std::size_t order_ = 0, ended_ = 0;
  std::vector<Flying> flying_;
  std::vector<std::size_t> spare_;                                   // free indices in flying_
  std::unordered_map<std::uint64_t, std::vector<Waiting>> waiting_;  // by key; a list seldom has more than one element
  Counts counts_;
};

}  // namespace

Outcome replay(const Collective& call, const Network& network, bool whole, const See& see) {
  return Replay(call, network, whole, see).play();
}

}  // namespace tutti::model
