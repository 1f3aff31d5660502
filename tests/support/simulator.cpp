// The simulator: plays all ranks' rounds, matches messages, and records the first defect.
#include "tests/support/simulator.hpp"

#include <algorithm>
#include <map>
#include <stdexcept>

#include "tests/support/expressions.hpp"
#include "tests/support/layout.hpp"
#include "transports/core/layout.hpp"

namespace tutti::testing {

namespace {

using Verb = Step::Verb;

struct Defect : std::runtime_error {
  using std::runtime_error::runtime_error;
};

struct Player {
  Shape shape;
  Rounds plan;
  Layout layout;
  std::vector<Expression> memory;
  std::size_t round = 0;    // the round that is being played
  std::size_t open = 0;     // number of its messages that are not done
  std::size_t clock = 0;    // time, in rounds, at which it began
  std::size_t until = 0;    // time at which its last message is done
  std::size_t sent = 0;     // number of elements
  std::uint64_t heard = 0;  // bit r: rank r is known to have entered the call
  std::size_t position(const Slice& s) const { return layout.of(s.memory).begin + s.offset; }
  /// Returns the memory of each run of a slice.
  std::vector<Region> regions(const Slice& s) const {
    std::vector<Region> all;
    each_run(s, s, [&](std::size_t at, std::size_t, std::size_t count) {
      const std::size_t begin = layout.of(s.memory).begin + at;
      all.push_back({begin, begin + count});
    });
    return all;
  }
};

/// A message step that waits for the step at its other end.
struct Post {
  const Step* step;
  std::uint64_t heard;
};

class Simulation {
 public:
  Simulation(const Trial& trial, const Plan& plan);
  void play();
  void check_results();
  Outcome outcome() const;

 private:
  void begin_round(int rank);
  void check_step(const Player& player, const Step& step) const;
  void check_slice(const Player& player, const Step& step, const Slice& slice) const;
  void check_block(const Player& player, const Step& step, const Slice& together) const;
  void check_overlap(const Player& player, const std::vector<Step>& steps) const;
  void run_locally(Player& player, const Step& step);
  void fold(const Player& player, const Step& step, Expression* into, const Expression* with, const Expression* from);
  void post(int rank, const Step& step);
  void deliver(int from, int to, const Post& sending, const Post& receiving);
  void message_done(int rank, std::size_t when);
  void check_all_ended() const;
  void check_inputs(const Player& player) const;
  std::vector<Expression> expected_copies(const Player& player) const;
  void check_folds(const Player& player) const;
  [[noreturn]] void fail(const Player& player, const Step& step, const std::string& what) const;

  const Trial& trial_;
  const Shapes shapes_;
  Algebra algebra_;
  std::vector<Player> players_;
  std::vector<std::vector<Post>> waiting_;  // index: from * size + to; sends or recvs, never both
  std::vector<std::size_t> matched_;        // how many of waiting_[i] are done
  std::vector<int> ready_;                  // ranks whose next round may begin
  std::size_t messages_ = 0, crossing_messages_ = 0;
  std::size_t rack_messages_ = 0;
  std::map<int, std::size_t> left_, left_racks_;  // elements sent to other hosts, and to other racks
};

Simulation::Simulation(const Trial& trial, const Plan& plan)
    : trial_(trial), shapes_(trial), algebra_(trial.size), players_(static_cast<std::size_t>(trial.size)) {
  const auto pairs = static_cast<std::size_t>(trial.size) * static_cast<std::size_t>(trial.size);
  waiting_.resize(pairs);
  matched_.resize(pairs);
  for (int rank = 0; rank < trial.size; ++rank) {
    Player& player = players_[static_cast<std::size_t>(rank)];
    player.shape = shapes_[rank];
    const Schedule schedule = plan(player.shape);
    player.plan = all_rounds(schedule);
    player.layout = layout_of(trial, player.shape, schedule.scratch());
    player.heard = std::uint64_t{1} << rank;
    player.memory.resize(player.layout.scratch.end);
    const bool gives = trial.kind == Kind::broadcast && rank == trial.root;
    const Region given = gives ? player.layout.out : player.layout.in;
    for (std::size_t i = 0; i < given.count(); ++i) player.memory[given.begin + i] = Algebra::leaf(rank, i);
    ready_.push_back(rank);
  }
}

void Simulation::fail(const Player& player, const Step& step, const std::string& what) const {
  throw Defect("rank " + std::to_string(player.shape.rank) + ", round " + std::to_string(player.round) + ", " +
               to_string(step) + ": " + what);
}

void Simulation::play() {
  while (!ready_.empty()) {
    const int rank = ready_.back();
    ready_.pop_back();
    begin_round(rank);
  }
  check_all_ended();
}

void Simulation::begin_round(int rank) {
  Player& player = players_[static_cast<std::size_t>(rank)];
  const auto& rounds = player.plan;
  for (; player.round < rounds.size(); ++player.round) {
    const auto& steps = rounds[player.round];
    for (const Step& step : steps) check_step(player, step);
    check_overlap(player, steps);
    for (const Step& step : steps) step.peer < 0 ? run_locally(player, step) : void(++player.open);
    if (player.open == 0) continue;
    player.until = player.clock;
    for (const Step& step : steps)
      if (step.peer >= 0) post(rank, step);
    return;
  }
}

void Simulation::check_slice(const Player& player, const Step& step, const Slice& slice) const {
  if (slice.count != step.slice.count) fail(player, step, "its slices have different counts");
  if (slice.run != 0 && step.verb != Verb::copy) fail(player, step, "only a copy has slices with runs");
  const std::size_t room = player.layout.of(slice.memory).count();
  each_run(slice, slice, [&](std::size_t at, std::size_t, std::size_t count) {
    if (at > room || count > room - at)
      fail(player, step, "a slice ends outside its memory of " + std::to_string(room));
    check_block(player, step, {slice.memory, at, count});
  });
}

void Simulation::check_block(const Player& player, const Step& step, const Slice& slice) const {
  const auto& blocks = slice.memory == Memory::in ? player.layout.in_blocks : player.layout.out_blocks;
  if (!trial_.lanes || slice.memory == Memory::scratch || !blocks || slice.count == 0) return;
  for (int i = 0; i < trial_.size; ++i) {
    const Range block = (*blocks)[i];
    const bool inside = slice.offset >= block.offset && slice.offset + slice.count <= block.offset + block.count;
    if (inside) return;
  }
  fail(player, step, "a slice crosses a block");
}

void Simulation::check_step(const Player& player, const Step& step) const {
  const bool is_local = step.verb == Verb::copy || step.verb == Verb::fold;
  if (step.peer != -1 && is_local) fail(player, step, "a local step with a peer");
  if (!is_local && (step.peer < 0 || step.peer >= trial_.size || step.peer == player.shape.rank))
    fail(player, step, "no such peer");
  check_slice(player, step, step.slice);
  if (step.verb == Verb::recv_reduce || is_local) check_slice(player, step, step.with);
  if (step.verb == Verb::fold) check_slice(player, step, step.from);
}

void Simulation::check_overlap(const Player& player, const std::vector<Step>& steps) const {
  struct Access {
    Region region;
    const Step* step;
    bool writes;
  };
  std::vector<Access> all;
  const auto add = [&](const Step& step, const Slice& slice, bool writes) {
    for (const Region& region : player.regions(slice)) all.push_back({region, &step, writes});
  };
  for (const Step& step : steps) {
    if (step.verb == Verb::copy && player.regions(step.with) == player.regions(step.slice)) continue;
    add(step, step.slice, step.verb != Verb::send);
    if (step.verb != Verb::send && step.verb != Verb::recv) add(step, step.with, false);
    if (step.verb == Verb::fold) add(step, step.from, false);
  }
  for (const Access& a : all) {
    if (!a.writes) continue;
    for (const Access& b : all) {
      if (&a == &b || !a.region.meets(b.region)) continue;
      if (a.step != b.step) fail(player, *a.step, "writes what this step of the round uses: " + to_string(*b.step));
      if (a.region != b.region || b.writes) fail(player, *a.step, "its result overlaps an operand");
    }
  }
}

void Simulation::run_locally(Player& player, const Step& step) {
  Expression* const memory = player.memory.data();
  if (step.verb == Verb::fold)
    return fold(player, step, memory + player.position(step.slice), memory + player.position(step.with),
                memory + player.position(step.from));
  Expression *const into = memory + player.layout.of(step.slice.memory).begin,
                    *const from = memory + player.layout.of(step.with.memory).begin;
  each_run(step.slice, step.with, [&](std::size_t to, std::size_t at, std::size_t count) {
    if (into + to != from + at) std::copy_n(from + at, count, into + to);
  });
}

void Simulation::fold(const Player& player, const Step& step, Expression* into, const Expression* with,
                      const Expression* from) {
  for (std::size_t i = 0; i < step.slice.count; ++i) into[i] = algebra_.fold(with[i], from[i], step.last);
  if (!algebra_.fault().empty()) fail(player, step, algebra_.fault());
}

void Simulation::post(int rank, const Step& step) {
  const bool is_send = step.verb == Verb::send;
  const int from = is_send ? rank : step.peer, to = is_send ? step.peer : rank;
  const auto pair = static_cast<std::size_t>(from * trial_.size + to);
  auto& queue = waiting_[pair];
  const Post mine{&step, players_[static_cast<std::size_t>(rank)].heard};
  if (matched_[pair] == queue.size() || (queue[matched_[pair]].step->verb == Verb::send) == is_send) {
    queue.push_back(mine);
    return;
  }
  const Post other = queue[matched_[pair]++];
  deliver(from, to, is_send ? mine : other, is_send ? other : mine);
}

void Simulation::deliver(int from, int to, const Post& sending, const Post& receiving) {
  Player &sender = players_[static_cast<std::size_t>(from)], &receiver = players_[static_cast<std::size_t>(to)];
  const Step &given = *sending.step, &step = *receiving.step;
  if (given.slice.count != step.slice.count)
    fail(receiver, step, "meets a message of another count: " + to_string(given));
  const Expression* const source = sender.memory.data() + sender.position(given.slice);
  Expression* const into = receiver.memory.data() + receiver.position(step.slice);
  if (step.verb == Verb::recv_reduce)
    fold(receiver, step, into, receiver.memory.data() + receiver.position(step.with), source);
  else
    std::copy_n(source, step.slice.count, into);
  receiver.heard |= sending.heard;
  sender.sent += given.slice.count;
  ++messages_;
  const auto host = [&](int rank) { return trial_.host.empty() ? 0 : trial_.host[static_cast<std::size_t>(rank)]; };
  if (host(from) != host(to)) {
    ++crossing_messages_;
    left_[host(from)] += given.slice.count;
  }
  const auto rack = [&](int rank) {
    return trial_.above.empty() ? 0 : trial_.above[0][static_cast<std::size_t>(rank)];
  };
  if (rack(from) != rack(to)) {
    ++rack_messages_;
    left_racks_[rack(from)] += given.slice.count;
  }
  const std::size_t arrival = std::max(sender.clock, receiver.clock) + 1;
  message_done(from, sender.clock + 1);
  message_done(to, arrival);
}

void Simulation::message_done(int rank, std::size_t when) {
  Player& player = players_[static_cast<std::size_t>(rank)];
  player.until = std::max(player.until, when);
  if (--player.open > 0) return;
  player.clock = player.until;
  ++player.round;
  ready_.push_back(rank);
}

void Simulation::check_all_ended() const {
  const auto ended = [&](int rank) {
    const Player& player = players_[static_cast<std::size_t>(rank)];
    return player.round == player.plan.size();
  };
  bool all = true;
  for (int rank = 0; rank < trial_.size; ++rank) all &= ended(rank);
  if (all) return;
  const Step* stuck = nullptr;
  const Player* who = nullptr;
  for (int rank = 0; rank < trial_.size; ++rank)
    for (std::size_t pair = 0; pair < waiting_.size() && !ended(rank); ++pair)
      for (std::size_t i = matched_[pair]; i < waiting_[pair].size(); ++i) {
        const Step& step = *waiting_[pair][i].step;
        const int owner = static_cast<int>(pair) / trial_.size, other = static_cast<int>(pair) % trial_.size;
        if ((step.verb == Verb::send ? owner : other) != rank) continue;
        stuck = &step;
        who = &players_[static_cast<std::size_t>(rank)];
        if (ended(step.peer))
          fail(*who, step, step.verb == Verb::send ? "nobody receives this message" : "nobody sends this message");
      }
  if (stuck != nullptr) fail(*who, *stuck, "deadlock");
}

/// Returns what `out` must have after a call without folds: elements of the `in` of some ranks.
std::vector<Expression> Simulation::expected_copies(const Player& player) const {
  std::vector<Expression> all;
  const auto append = [&all](int source, Range elements) {
    for (std::size_t i = 0; i < elements.count; ++i) all.push_back(Algebra::leaf(source, elements.offset + i));
  };
  const Layout& layout = player.layout;
  const int rank = player.shape.rank;
  if (trial_.kind == Kind::broadcast) append(trial_.root, {0, trial_.count});
  if (trial_.kind == Kind::scatter) append(trial_.root, (*layout.in_blocks)[rank]);
  if (!layout.out_blocks || layout.out.count() == 0) return all;
  for (int source = 0; source < trial_.size; ++source) {
    const Layout& theirs = players_[static_cast<std::size_t>(source)].layout;
    append(source, theirs.in_blocks ? (*theirs.in_blocks)[rank] : Range{0, (*layout.out_blocks)[source].count});
  }
  return all;
}

void Simulation::check_inputs(const Player& player) const {
  for (std::size_t i = 0; i < player.layout.in.count(); ++i) {
    const std::size_t at = player.layout.in.begin + i;
    if (at >= player.layout.out.begin && at < player.layout.out.end) continue;
    if (player.memory[at] != Algebra::leaf(player.shape.rank, i))
      throw Defect("rank " + std::to_string(player.shape.rank) + " has written to in[" + std::to_string(i) + "]");
  }
}

void Simulation::check_folds(const Player& player) const {
  const int rank = player.shape.rank;
  const std::size_t first = trial_.kind == Kind::reduce_scatter ? (*player.layout.in_blocks)[rank].offset : 0;
  const Player& zero = players_.front();
  for (std::size_t i = 0; i < player.layout.out.count(); ++i) {
    const Expression value = player.memory[player.layout.out.begin + i];
    std::string wrong = algebra_.why_not_result(value, first + i);
    if (wrong.empty() && trial_.kind == Kind::allreduce &&
        !algebra_.same(value, zero.memory[zero.layout.out.begin + i]))
      wrong = "is folded in another order than on rank 0";
    if (!wrong.empty()) throw Defect("rank " + std::to_string(rank) + ", out[" + std::to_string(i) + "]: " + wrong);
  }
}

void Simulation::check_results() {
  const Kind kind = trial_.kind;
  for (const Player& player : players_) {
    check_inputs(player);
    const std::string rank = "rank " + std::to_string(player.shape.rank);
    if (kind == Kind::barrier && player.heard != algebra_.everyone())
      throw Defect(rank + " leaves the barrier without having heard from all");
    if (folds(kind)) {
      check_folds(player);
      continue;
    }
    const std::vector<Expression> expected = expected_copies(player);
    const auto found = player.memory.begin() + static_cast<std::ptrdiff_t>(player.layout.out.begin);
    const auto [good, bad] = std::mismatch(expected.begin(), expected.end(), found);
    if (good != expected.end())
      throw Defect(rank + ", out[" + std::to_string(good - expected.begin()) + "]: " + algebra_.describe(*bad) +
                   " instead of " + algebra_.describe(*good));
  }
}

Outcome Simulation::outcome() const {
  Outcome result;
  result.messages = messages_;
  result.crossing_messages = crossing_messages_;
  for (const auto& [host, elements] : left_) {
    result.crossing.total += elements;
    result.crossing.most = std::max(result.crossing.most, elements);
  }
  result.rack_messages = rack_messages_;
  for (const auto& [rack, elements] : left_racks_) {
    result.racks.total += elements;
    result.racks.most = std::max(result.racks.most, elements);
  }
  for (const Player& player : players_) {
    result.cost.rounds = std::max(result.cost.rounds, static_cast<int>(player.clock));
    result.cost.elements = std::max(result.cost.elements, player.sent);
  }
  return result;
}

}  // namespace

Shapes::Shapes(const Trial& trial) : hosts_(trial.host, trial.size, trial.above) {
  for (const auto& counts : trial.in_counts) in_.emplace_back(counts, &hosts_);
  for (const auto& counts : trial.out_counts) out_.emplace_back(counts, &hosts_);
  for (int rank = 0; rank < trial.size; ++rank) {
    const auto r = static_cast<std::size_t>(rank);
    Shape shape{.rank = rank, .size = trial.size, .count = trial.count, .root = trial.root, .way = trial.way};
    shape.hosts = &hosts_;
    if (!in_.empty()) shape.in_blocks = &in_[r];
    if (!out_.empty()) shape.out_blocks = &out_[r];
    shapes_.push_back(shape);
  }
}

Outcome simulate(const Trial& trial, const Plan& plan) {
  try {
    Simulation simulation(trial, plan);
    simulation.play();
    simulation.check_results();
    return simulation.outcome();
  } catch (const Defect& defect) {
    Outcome failed;
    failed.defect = defect.what();
    return failed;
  }
}

}  // namespace tutti::testing
