// Two-copy: the buffers pass piece by piece through two slots of each rank.
//
// In round k a rank stages the part of its piece k that others need, and then takes what it needs of piece k - 1. In an
// allreduce, and in a reduce of many ranks, to take means to reduce its own share of the piece, to its output and to a
// slot for the others. At the beginning of round k the rank gathers the others' shares of piece k - 2. So a rank waits
// only for work of the previous round. Rounds are counted over all calls of the communicator:
//
//   staged     round k may be staged once all ranks that take from this one have folded round k - 2 (the same slot)
//   folded     round k may be folded once all ranks that gather from this one have gathered round k - 2
//
// With two ranks, a rank writes its reduced share into the other's slot, over the data that it has just read, so that
// each cache line moves between the cores twice instead of four times. With more ranks it writes the share into its own
// slot, at the place where nothing was staged.
//
// In an allreduce of N bytes among p ranks, a rank stages N (p-1)/p bytes, folds N and gathers N (p-1)/p: together less
// than 3 N.
#include <sched.h>
#include <unistd.h>

#include <optional>
#include <vector>

#include "transports/core/host.hpp"
#include "transports/shm/engines.hpp"

namespace tutti::shm {
namespace {

constexpr std::size_t small_piece = std::size_t{64} << 10;  // bytes
constexpr int few_ranks = 4;

// True if every rank reduces its own share. With few ranks, the root of a reduce reduces alone while the others stage,
// which is less work in total.
bool folds_in_shares(const ShmCall& call) noexcept {
  return call.in_shares() && (call.kind == Kind::allreduce || call.size > few_ranks);
}

// Maximum bytes in a rank's slot per round. All ranks' slots together stay in the caches. If only one rank sends or
// receives, pieces are small, so that receivers start early. In a scatter among many ranks, pieces are larger, because
// ranks that share cores would be scheduled in every round for little data.
std::size_t slot_bytes(const ShmCall& call) noexcept {
  constexpr std::size_t least = std::size_t{32} << 10, most = std::size_t{128} << 10;
  const auto early = [&](std::size_t pieces) { return std::clamp(call.bytes() / pieces, least, most); };
  if (call.kind == Kind::broadcast) return early(call.size == 2 ? 8 : 2);
  if (call.kind == Kind::gather) return early(4);
  const bool many = call.size > few_ranks;
  if (call.kind == Kind::scatter)
    return std::min(many ? call.slot_room : room_bytes, early(many ? 1 : 2) * call.blocks_given());
  if (call.kind == Kind::reduce && !folds_in_shares(call)) return early(8);
  // Up to eight ranks use the largest pieces, because they wait for one another in every round; a rank that reduces
  // does more work per round than one that copies. Data that come from memory need not fit into a cache.
  const bool copies = call.kind == Kind::alltoall && many;
  const bool folds = call.folds() && call.kind != Kind::reduce && call.size > 2 && call.vast;
  const std::size_t whole = copies || folds ? std::min(2 * room_bytes, call.slot_room) : room_bytes;
  return std::clamp(8 * whole / static_cast<std::size_t>(call.size), call.folds() ? most : 1, whole);
}

// Elements of a rank's input per round: whole cache lines, with shares of whole lines for every rank. The pieces of a
// call are as equal as that allows.
std::size_t piece_count(const ShmCall& call) noexcept {
  const std::size_t unit = (folds_in_shares(call) ? static_cast<std::size_t>(call.size) : 1) * (64 / call.width);
  const std::size_t most = slot_bytes(call) / call.blocks_given() / call.width / unit * unit;
  const std::size_t rounds = std::max<std::size_t>(1, (call.count + most - 1) / most);
  const std::size_t each = std::max<std::size_t>(1, (call.count + rounds - 1) / rounds);
  return (each + unit - 1) / unit * unit;  // at most `most`, which is a multiple of the unit too
}

// What a rank copies and reduces in the rounds of one call, which are numbered from 0.
class Rounds {
 public:
  Rounds(GroupMemory& memory, const ShmCall& call) : memory_(memory), call_(call), piece_(piece_count(call)) {}

  // The word to wait for while another rank may still read the previous content of this round's slot; nullopt if none
  // does. In the first two rounds of a call that content is an earlier call's, at an unknown place in the slot.
  std::optional<Awaited> who_needs_slot(std::uint64_t round) const {
    const std::uint64_t before = call_.round + round - std::min<std::uint64_t>(call_.round + round, 1);
    for (int other = 0; other < call_.size; ++other) {
      if (other == call_.rank || !(round < 2 || folds_in_shares(call_) || call_.takes(other))) continue;
      const Awaited folded{&memory_.of(other).folded, before, other},
          gathered{&memory_.of(other).gathered, before, other};
      if (!folded.reached()) return folded;
      if (round < 2 && !gathered.reached()) return gathered;
    }
    return std::nullopt;
  }

  void stage(std::uint64_t round) {
    std::byte* const slot = memory_.own_slot(call_.round + round) + turn_of(round);
    const Part piece = piece_of(round);
    if (folds_in_shares(call_)) {
      const Part own = share_of(piece, call_.rank);
      copy(slot, call_.in, {piece.at, own.at - piece.at}, 0);
      const std::size_t after = own.at + own.count;
      copy(slot, call_.in, {after, piece.at + piece.count - after}, after - piece.at);
    } else if (call_.kind == Kind::allgather && !keeps_when_told()) {
      stage_and_keep(slot, piece);
    } else if (call_.blocks_given() == 1) {
      copy(slot, call_.given(), piece, 0);
    } else {
      for (int other = 0; other < call_.size; ++other)
        if (other != call_.rank)
          copy(slot, call_.in, {call_.given_at(other) + piece.at, piece.count},
               static_cast<std::size_t>(other) * piece.count);
    }
  }

  // Reduces this rank's share, or reads what others sent.
  void take(std::uint64_t round) {
    const Part piece = piece_of(round);
    if (folds_in_shares(call_)) return fold_share(round, piece);
    const bool blocks = call_.blocks_given() > 1;
    const auto from = [&](int other) {
      if (other == call_.rank) return at(call_.given(), call_.given_at(other) + piece.at);  // only to reduce
      const std::byte* const slot = slot_of(other, round);
      return at(slot, blocks ? static_cast<std::size_t>(call_.rank) * piece.count : 0);
    };
    if (call_.folds())
      return fold_in_order(call_, Target{at(call_.out, piece.at), call_.write}, piece.count * call_.width, from);
    for (int other = 0; other < call_.size; ++other) {
      if (!call_.gives(other) || other == call_.rank) continue;
      std::byte* const into = at(call_.out, call_.taken_at(other) + piece.at);
      if (into != from(other)) call_.deliver(into, from(other), piece.count * call_.width);
    }
  }

  // True if the rank copies its own block only after it has published its staged data, while the others begin to read;
  // else it does so while staging. An allgather stages the same bytes, which are still in the L1 cache if they are few.
  bool keeps_when_told() const noexcept {
    return call_.kind == Kind::alltoall ||
           (call_.kind == Kind::allgather && call_.size == 2 && piece_ * call_.width <= small_piece);
  }

  // Copies this round's piece of the rank's own block, which passes through no slot.
  void keep(std::uint64_t round) const noexcept {
    const Part piece = piece_of(round);
    const std::byte* const from = at(call_.in, call_.given_at(call_.rank) + piece.at);
    std::byte* const home = at(call_.out, call_.taken_at(call_.rank) + piece.at);
    if (home != from) call_.deliver(home, from, piece.count * call_.width);
  }

  // Reads the shares that the others have reduced.
  void gather(std::uint64_t round) {
    const Part piece = piece_of(round);
    for (int other = 0; other < call_.size; ++other) {
      if (other == call_.rank) continue;
      const Part share = share_of(piece, other);
      const std::byte* const result = at(left_by(other, round), share.at - piece.at);
      call_.deliver(at(call_.out, share.at), result, share.count * call_.width);
    }
  }

 private:
  template <class Byte>
  Byte* at(Byte* base, std::size_t element) const noexcept {
    return base + element * call_.width;
  }
  Part piece_of(std::uint64_t round) const noexcept {
    const std::size_t from = round * piece_;
    return {from, std::min(piece_, call_.count - from)};
  }
  // Shares have the same offset in every piece, so that a slot's next round does not overwrite shares not gathered yet.
  Part share_of(Part piece, int rank) const noexcept {
    const std::size_t each = piece_ / static_cast<std::size_t>(call_.size);
    const std::size_t from = std::min(each * static_cast<std::size_t>(rank), piece.count);
    return {piece.at + from, std::min(each, piece.count - from)};
  }
  void copy(std::byte* slot, const std::byte* from, Part what, std::size_t to) const noexcept {
    if (what.count > 0) memory_.staging().copy(at(slot, to), at(from, what.at), what.count * call_.width);
  }

  // Also copies the rank's own block to the result, while it is in the L1 cache.
  void stage_and_keep(std::byte* slot, Part piece) const noexcept {
    const std::byte* const from = at(call_.in, piece.at);
    std::byte* const home = at(call_.out, call_.taken_at(call_.rank) + piece.at);
    const std::size_t bytes = piece.count * call_.width;
    for (std::size_t done = 0; done < bytes; done += fold_bytes) {
      const std::size_t n = std::min(fold_bytes, bytes - done);
      memory_.staging().copy(slot + done, from + done, n);
      if (home != from) call_.deliver(home + done, from + done, n);
    }
  }

  // Pieces rotate over places in their slot: lines just written are slow to read from another core's L1 cache, and
  // lines that another core has read are slow to write again. In an allreduce lines move both ways, and only small
  // pieces rotate.
  std::size_t turn_of(std::uint64_t round) const noexcept {
    const std::size_t bytes = piece_ * call_.blocks_given() * call_.width;
    const std::size_t places = (call_.kind == Kind::allreduce ? room_bytes / 2 : call_.slot_room) / bytes;
    return (call_.round + round) / 2 % std::max<std::size_t>(1, places) * bytes;
  }
  std::byte* slot_of(int rank, std::uint64_t round) const noexcept {
    return memory_.slot_of(rank, call_.round + round) + turn_of(round);
  }

  // The slot into which a rank writes its share of a result.
  std::byte* left_by(int rank, std::uint64_t round) const noexcept {
    const int whose = call_.size == 2 ? 1 - rank : rank;
    return slot_of(whose, round);
  }

  void fold_share(std::uint64_t round, Part piece) {
    const Part own = share_of(piece, call_.rank);
    const std::size_t within = own.at - piece.at, bytes = own.count * call_.width;
    const auto given = [&](int other) {
      return other == call_.rank ? at(call_.in, own.at) : at(slot_of(other, round), within);
    };
    const Target home{at(call_.out, own.at), call_.write}, left{at(left_by(call_.rank, round), within)};
    if (call_.kind == Kind::allreduce) return fold_in_order(call_, std::array{left, home}, bytes, given);
    fold_in_order(call_, call_.at_root() ? home : left, bytes, given);
  }

  GroupMemory& memory_;
  const ShmCall& call_;
  const std::size_t piece_;
};

// The root of a scatter copies as much as all others together and should have a core of its own. For large blocks it
// pays to move the ranks that share its core away, and back afterwards.
bool wants_core_alone(const GroupMemory& memory, const ShmCall& call) noexcept {
  constexpr std::size_t large = std::size_t{512} << 10;
  return memory.moves_threads() && call.kind == Kind::scatter && call.bytes() >= large;
}

// If ranks share cores, moves this thread from the core `busy` to another one. With the setting home_cores, the thread
// may move back earlier, while it waits. Returns the thread to move back, or 0 if it was not moved.
pid_t leave_core(int busy, const ShmCall& call) {
  if (busy < 0 || sched_getcpu() != busy) return 0;
  std::vector<int> others = allowed_cores();
  std::erase(others, busy);
  if (others.empty() || others.size() + 1 >= static_cast<std::size_t>(call.size)) return 0;
  step_onto_core(others[static_cast<std::size_t>(call.rank) % others.size()]);
  return gettid();
}

bool stages(const ShmCall& call) noexcept {
  return call.gives(call.rank) && (folds_in_shares(call) || call.others_take());
}

// True if this rank knows from its own buffers that the call takes two copies.
bool knows_rounds(GroupMemory& memory, const ShmCall& call) {
  return call.insists_on(Insisted::two_copy) ||
         !is_within_reach(call, call.rank, memory.own().calls[call.number % call_lines]);
}

// True if the root copies the first piece of its own block while others arrive. False in a scatter, where staging
// the next piece is more urgent.
bool keeps_before(GroupMemory& memory, const ShmCall& call) {
  return call.kind == Kind::gather && call.at_root() && knows_rounds(memory, call);
}

}  // namespace

std::uint64_t rounds_of(const ShmCall& call) { return (call.count + piece_count(call) - 1) / piece_count(call); }

// A rank that knows that the call takes two copies stages its first piece before it publishes its call line.
EngineTask play_meeting(GroupMemory& memory, const ShmCall& call) {
  CallLine& line = write_line(memory, call);
  const bool offered = !call.keeps_buffers();
  line.in = offered ? memory.offset_of(call.given(), call.given_bytes()) : 0;
  line.out = offered ? memory.offset_of(call.out, call.out_bytes()) : 0;
  line.core = call.at_root() && wants_core_alone(memory, call) ? sched_getcpu() : -1;
  if (stages(call) && knows_rounds(memory, call)) {
    Rounds moves(memory, call);
    while (const auto late = moves.who_needs_slot(0)) co_await memory.until(*late);
    moves.stage(0);
    memory.own().staged.store(call.round + 1, std::memory_order_release);
  }
  memory.post(line.stamp, call.stamp);
  if (keeps_before(memory, call)) Rounds(memory, call).keep(0);
  for (int other = 0; other < call.size; ++other) {
    if (other == call.rank) continue;
    co_await memory.until(memory.call_of(other, call.number).stamp, least_stamp(call.number), other);
    if (Status same = compare_calls(memory, call, other); !same.ok()) co_return same;
    memory.has_entered(other, call.number);
  }
  co_return Status();
}

EngineTask play_two_copy(GroupMemory& memory, const ShmCall& call) {
  Rounds moves(memory, call);
  Slab& own = memory.own();
  const std::uint64_t rounds = rounds_of(call);
  const bool gives = stages(call), takes = call.takes(call.rank), shares = folds_in_shares(call);
  std::uint64_t kept = !call.root_keeps() || !call.at_root() ? rounds : keeps_before(memory, call) ? 1 : 0;
  // The root copies its own block piece by piece while it has nothing else to do.
  const auto keep_one = [&] { return kept < rounds && (moves.keep(kept++), true); };
  const bool may_leave = wants_core_alone(memory, call) && !call.at_root();
  const int busy = may_leave ? memory.call_of(call.root, call.number).core : -1;
  const pid_t left = leave_core(busy, call);
  const auto gathers = [&](int other) { return shares && (call.kind == Kind::allreduce || other == call.root); };
  for (std::uint64_t k = 0; k < rounds + (shares ? 2 : 1); ++k) {
    if (k >= 2 && gathers(call.rank)) {
      for (int other = 0; other < call.size; ++other)
        if (other != call.rank) co_await memory.until(memory.of(other).folded, call.round + k - 1, other);
      moves.gather(k - 2);
      memory.post(own.gathered, call.round + k - 1);
    }
    if (k < rounds && gives && own.staged.load(std::memory_order_relaxed) < call.round + k + 1) {
      while (const auto late = moves.who_needs_slot(k)) co_await (keep_one() ? memory.breathe() : memory.until(*late));
      moves.stage(k);
      memory.post(own.staged, call.round + k + 1);
    }
    if (k < rounds && moves.keeps_when_told()) moves.keep(k);
    if (k >= 1 && k <= rounds && (takes || shares)) {
      for (int other = 0; other < call.size; ++other) {
        if (other == call.rank || !call.gives(other)) continue;
        const Awaited staged{&memory.of(other).staged, call.round + k, other};
        while (!staged.reached()) co_await (keep_one() ? memory.breathe() : memory.until(staged));
        if (k >= 2 && gathers(other)) co_await memory.until(memory.of(other).gathered, call.round + k - 2, other);
      }
      moves.take(k - 1);
      memory.post(own.folded, call.round + k);
    }
    co_await memory.breathe();
  }
  while (keep_one()) co_await memory.breathe();
  if (left != 0 && left == gettid()) step_onto_core(busy);
  own.staged.store(call.round + rounds, std::memory_order_release);
  own.folded.store(call.round + rounds, std::memory_order_release);
  memory.post(own.gathered, call.round + rounds);
  co_return Status();
}

}  // namespace tutti::shm
