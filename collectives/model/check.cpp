// The check of plans: see replay.hpp. Plays one lane (a part of the buffer) for each length and schedule. Elements are
// numbers of 64 bits.
#include <algorithm>
#include <deque>
#include <optional>
#include <unordered_map>
#include <vector>

#include "collectives/model/replay.hpp"
#include "collectives/plan/geometry.hpp"
#include "transports/core/layout.hpp"

namespace tutti::model {
namespace {

using Verb = Step::Verb;
using Value = std::uint64_t;  // an element's value: the sum of its contributions modulo 2^64

/// The value of element `i` of a rank's `in`, or of the root's `out` for a broadcast. It is a pseudorandom number, so
/// that a sum with wrong contributions differs from the right sum except by chance. The function is from Steele, Lea &
/// Flood, "Fast splittable pseudorandom number generators", OOPSLA 2014.
Value contribution(int rank, std::size_t i) {
  Value z = (static_cast<Value>(rank) << 40 ^ i) + 0x9e3779b97f4a7c15u;
  z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
  z = (z ^ z >> 27) * 0x94d049bb133111ebu;
  return z ^ z >> 31;
}

enum class Buffers { none, unbounded };

struct Post {
  Step step;
  int rank = 0;
  std::vector<Value> data;   // the elements that are sent
  std::vector<Value> heard;  // for barriers: the ranks that are known to have entered it, one bit each
};

struct Member {
  Schedule plan;
  std::vector<Value> memory[3];  // by Memory
  std::vector<Value> heard;
  int round = 0;
  int open = 0;
};

class Rehearsal {
 public:
  Rehearsal(const Algorithm& algorithm, const Shape& shape, Buffers buffers)
      : kind_(algorithm.kind), shape_(shape), buffers_(buffers), members_(static_cast<std::size_t>(shape.size)) {
    for (int rank = 0; rank < shape.size; ++rank) prepare(algorithm, rank);
  }

  std::string play() {
    for (int rank = 0; rank < shape_.size; ++rank) ready_.push_back(rank);
    while (!ready_.empty() && defect_.empty()) {
      const int rank = ready_.front();
      ready_.pop_front();
      begin_rounds(rank);
    }
    if (!defect_.empty()) return defect_;
    for (int rank = 0; rank < shape_.size; ++rank)
      if (at(rank).round < at(rank).plan.rounds())
        return "deadlock" + std::string(buffers_ == Buffers::none ? " where messages wait for their receives" : "") +
               ": " + who(rank) + " waits for ever in round " + std::to_string(at(rank).round);
    if (!waiting_.empty()) return who(waiting_.begin()->second.front().rank) + " sends a message that nobody receives";
    for (int rank = 0; rank < shape_.size; ++rank)
      if (std::string wrong = wrong_on(rank); !wrong.empty()) return who(rank) + ": " + wrong;
    return {};
  }

 private:
  Member& at(int rank) { return members_[static_cast<std::size_t>(rank)]; }
  static std::string who(int rank) { return "rank " + std::to_string(rank); }
  std::size_t blocks(int rank, bool is_in) const {
    const bool is_root = rank == shape_.root;
    if (kind_ == Kind::barrier) return 0;
    if (is_in && only_root_gives(kind_) && (!is_root || kind_ == Kind::broadcast)) return 0;
    if (!is_in && only_root_takes(kind_) && !is_root) return 0;
    return is_in ? blocks_in(kind_, shape_.size) : blocks_out(kind_, shape_.size);
  }

  void prepare(const Algorithm& algorithm, int rank) {
    Member& member = at(rank);
    Shape mine = shape_;
    mine.rank = rank;
    member.plan = algorithm.plan(mine);
    for (const Memory memory : {Memory::in, Memory::out}) {
      auto& values = member.memory[static_cast<int>(memory)];
      values.resize(blocks(rank, memory == Memory::in) * shape_.count);
      const bool is_given = (memory == Memory::in) != (kind_ == Kind::broadcast);
      for (std::size_t i = 0; i < values.size(); ++i)
        values[i] = contribution(is_given && (kind_ != Kind::broadcast || rank == shape_.root) ? rank : ~rank, i);
    }
    auto& scratch = member.memory[static_cast<int>(Memory::scratch)];
    scratch.resize(member.plan.scratch());
    for (std::size_t i = 0; i < scratch.size(); ++i) scratch[i] = contribution(~rank, ~i >> 24);
    if (kind_ != Kind::barrier) return;
    member.heard.resize((members_.size() + 63) / 64);
    member.heard[static_cast<std::size_t>(rank) / 64] |= Value{1} << rank % 64;
  }

  void begin_rounds(int rank) {
    Member& member = at(rank);
    for (; member.round < member.plan.rounds() && defect_.empty(); ++member.round) {
      member.open = 1;
      std::vector<Step> messages;  // posted after the local steps, of which they must be independent
      member.plan.play(member.round, [&](const Step& step) {
        if (step.is_local())
          do_here(rank, step);
        else
          messages.push_back(step);
      });
      member.open += static_cast<int>(messages.size());
      for (const Step& step : messages)
        if (defect_.empty()) post(rank, step);
      if (--member.open > 0) return;
    }
  }

  Value* place(int rank, const Slice& slice) {
    auto& values = at(rank).memory[static_cast<int>(slice.memory)];
    std::size_t end = 0;
    each_run(slice, slice,
             [&](std::size_t begin, std::size_t, std::size_t count) { end = std::max(end, begin + count); });
    if (end > values.size() && defect_.empty())
      defect_ = who(rank) + ": a slice ends outside its memory: " + std::to_string(end) + " of " +
                std::to_string(values.size());
    return values.data();
  }

  void do_here(int rank, const Step& step) {
    Value* const into = place(rank, step.slice);
    const Value* const with = place(rank, step.with);
    const Value* const from = step.verb == Verb::fold ? place(rank, step.from) : nullptr;
    if (!defect_.empty()) return;
    if (step.verb == Verb::fold) {
      for (std::size_t i = 0; i < step.slice.count; ++i)
        into[step.slice.offset + i] = with[step.with.offset + i] + from[step.from.offset + i];
      return;
    }
    each_run(step.slice, step.with, [&](std::size_t to, std::size_t source, std::size_t count) {
      for (std::size_t i = 0; i < count; ++i) into[to + i] = with[source + i];
    });
  }

  void post(int rank, const Step& step) {
    const bool is_send = step.verb == Verb::send;
    if (step.peer < 0 || step.peer >= shape_.size || step.peer == rank) {
      defect_ = who(rank) + " has no such peer: " + to_string(step);
      return;
    }
    Post mine{step, rank, {}, {}};
    const bool leaves_at_once = is_send && buffers_ == Buffers::unbounded;
    if (leaves_at_once) {
      fill(mine);
      done(rank);
    }
    const auto pair = static_cast<std::uint64_t>(is_send ? rank : step.peer) * members_.size() +
                      static_cast<std::uint64_t>(is_send ? step.peer : rank);
    const auto [entry, is_new] = waiting_.try_emplace(pair);
    auto& queue = entry->second;
    if (queue.empty() || (queue.front().step.verb == Verb::send) == is_send) {
      queue.push_back(std::move(mine));
      return;
    }
    Post other = std::move(queue.front());
    queue.pop_front();
    if (queue.empty()) waiting_.erase(entry);
    is_send ? deliver(mine, other) : deliver(other, mine);
  }

  void fill(Post& sending) {
    const Slice& slice = sending.step.slice;
    const Value* const from = place(sending.rank, slice) + slice.offset;
    if (!defect_.empty()) return;
    sending.data.assign(from, from + slice.count);
    sending.heard = at(sending.rank).heard;
  }

  void deliver(Post& sending, const Post& receiving) {
    if (buffers_ == Buffers::none) fill(sending);
    const Step& step = receiving.step;
    Value* const into = place(receiving.rank, step.slice) + step.slice.offset;
    if (!defect_.empty()) return;
    if (sending.data.size() != step.slice.count) {
      defect_ =
          who(receiving.rank) + ": " + to_string(step) + " meets a message of " + std::to_string(sending.data.size());
      return;
    }
    const Value* const with =
        step.verb == Verb::recv_reduce ? place(receiving.rank, step.with) + step.with.offset : nullptr;
    for (std::size_t i = 0; i < sending.data.size(); ++i)
      into[i] = sending.data[i] + (with != nullptr ? with[i] : Value{0});
    auto& heard = at(receiving.rank).heard;
    for (std::size_t i = 0; i < heard.size(); ++i) heard[i] |= sending.heard[i];
    if (buffers_ == Buffers::none) done(sending.rank);
    done(receiving.rank);
  }

  void done(int rank) {
    Member& member = at(rank);
    if (--member.open > 0) return;
    ++member.round;
    ready_.push_back(rank);
  }

  std::string wrong_on(int rank) {
    const Member& member = at(rank);
    const auto& in = member.memory[static_cast<int>(Memory::in)];
    for (std::size_t i = 0; i < in.size(); ++i)
      if (kind_ != Kind::broadcast && in[i] != contribution(rank, i))
        return "it has written to in[" + std::to_string(i) + "]";
    const auto& out = member.memory[static_cast<int>(Memory::out)];
    for (std::size_t i = 0; i < out.size(); ++i)
      if (out[i] != expected(rank, i)) return "out[" + std::to_string(i) + "] has not every contribution exactly once";
    for (int other = 0; kind_ == Kind::barrier && other < shape_.size; ++other)
      if ((member.heard[static_cast<std::size_t>(other) / 64] >> other % 64 & 1) == 0)
        return "it leaves the barrier without having heard of rank " + std::to_string(other);
    return {};
  }

  Value expected(int rank, std::size_t i) {
    const auto source = static_cast<int>(shape_.count == 0 ? 0 : i / shape_.count);
    const std::size_t mine = static_cast<std::size_t>(rank) * shape_.count;
    switch (kind_) {
      case Kind::broadcast: return contribution(shape_.root, i);
      case Kind::scatter: return contribution(shape_.root, mine + i);
      case Kind::allgather:
      case Kind::gather: return contribution(source, i % shape_.count);
      case Kind::alltoall: return contribution(source, mine + i % shape_.count);
      case Kind::reduce_scatter: return sum_at(mine + i);
      default: return sum_at(i);
    }
  }

  Value sum_at(std::size_t i) {
    if (sums_.size() <= i) sums_.resize(i + 1);
    if (!sums_[i]) {
      Value sum = 0;
      for (int rank = 0; rank < shape_.size; ++rank) sum += contribution(rank, i);
      sums_[i] = sum;
    }
    return *sums_[i];
  }

  const Kind kind_;
  const Shape shape_;
  const Buffers buffers_;
  std::vector<Member> members_;
  std::unordered_map<std::uint64_t, std::deque<Post>> waiting_;  // by sender and receiver: only sends or only receives
  std::deque<int> ready_;
  std::vector<std::optional<Value>> sums_;
  std::string defect_;
};

}  // namespace

std::string check(const Collective& call) {
  const std::size_t ways = call.ways();
  const std::size_t rest = rest_of(call.lanes, call.shape.count);
  std::vector<std::size_t> counts{call.lanes.number == 1 ? call.shape.count : call.lanes.count};
  if (rest != counts.front()) counts.push_back(rest);
  for (const std::size_t count : counts)
    for (std::size_t way = 0; way < ways; ++way)
      for (const Buffers buffers : {Buffers::none, Buffers::unbounded}) {
        Shape shape = call.shape;
        shape.count = count;
        shape.way = static_cast<int>(way);
        if (std::string defect = Rehearsal(*call.algorithm, shape, buffers).play(); !defect.empty())
          return (ways > 1 ? "way " + std::to_string(way) + ": " : "") + defect;
      }
  return {};
}

}  // namespace tutti::model
