// Halving and doubling for any number of ranks: a reduce-scatter and an allgather of blocks, each in few rounds and
// with the least possible data. They are templates because algorithms store their blocks in different places.
#pragma once

#include <algorithm>
#include <cstdint>

#include "collectives/plan/geometry.hpp"
#include "collectives/plan/schedule.hpp"

namespace tutti::pieces {

/// The radix: the factor by which a rank's blocks increase in a round of the allgather. Radix 4 needs half the rounds
/// of radix 2, and sends the same data in up to three messages at a time. Radix 2 is better for long messages: these
/// fill the links better one after another. `elements`: of all blocks together.
constexpr int radix_for(std::size_t elements) noexcept { return elements <= std::size_t{16} << 10 ? 4 : 2; }

/// Round k of the allgather: Bruck's with one port (radix 2) or three ports (radix 4). This rank has `have` blocks, its
/// own and those after it. It sends the first of them to the ranks have, 2 have and 3 have behind. It receives the
/// blocks that follow from the ranks have, 2 have and 3 have ahead. The reduce-scatter is the reverse: its rounds are
/// in the opposite order, and messages go in the opposite direction.
struct Doubling {
  Doubling(int blocks, int k, int radix) noexcept : have(1), all(blocks), ports(radix - 1) {
    for (int i = 0; i < k; ++i) have *= radix;
  }
  /// more(): the number of blocks that `port` sends. far(): the distance of its peer. Both are 0 if it sends nothing.
  int more(int port) const noexcept {
    if (port > ports) return 0;
    return static_cast<int>(std::clamp<std::int64_t>(all - std::int64_t{port} * have, 0, have));
  }
  int far(int port) const noexcept { return more(port) > 0 ? port * have : 0; }
  int have, all, ports;
};
constexpr int doublings(int blocks, int radix) noexcept {
  return radix == 2 ? log2_ceil(blocks) : (log2_ceil(blocks) + 1) / 2;
}

/// The rank of a ring that is `ahead` ranks ahead of this rank; behind if negative.
struct Neighbours {
  Ring ring;
  int operator()(int ahead) const noexcept { return modulo(ring.rank + ahead, ring.size); }
};

/// An allgather of the blocks of all ranks. At the start, this rank's block is in its place. Blocks are counted from
/// this rank's block, which is block 0. `at(first, n, each)` calls each(slice) for the slices of the n blocks from
/// block `first` on. `peer(i)` is the rank that owns block i; i may be negative.
///
///   rounds ceil(log p), by the radix     elements all blocks but one
///
/// Bruck, Ho, Kipnis, Upfal & Weathersby, "Efficient algorithms for all-to-all communications in multiport
/// message-passing systems", IEEE TPDS 1997.
template <typename Peer, typename At>
void collect_by_doubling(Schedule& plan, int size, int radix, Peer peer, At at) {
  plan.rounds(doublings(size, radix), [=](int k, Round& round) {
    const Doubling step(size, k, radix);
    for (int port = 1; step.more(port) > 0; ++port) {
      at(0, step.more(port), [&](Slice slice) { round.add(send(peer(-step.far(port)), slice)); });
      at(step.far(port), step.more(port), [&](Slice slice) { round.add(recv(peer(step.far(port)), slice)); });
    }
  });
}

/// A reduce-scatter: folds every block at its owner, by the doubling in reverse. `at` as above, for the places of the
/// sums. This rank's contributions are in the same places of the memory `given`. Data received by the second and the
/// third port is stored in scratch, from element `spare` on, until it is folded.
///
///   rounds ceil(log p), by the radix     elements all blocks but this rank's own
///   scratch half the blocks at most, none for the radix 2
///
/// Träff, "Optimal, non-pipelined reduce-scatter and allreduce algorithms", arXiv:2410.14234, 2024.
template <typename Peer, typename At>
class Halving {
 public:
  Halving(Doubling first, Peer peer, At at, Memory given, std::size_t spare)
      : size_(first.all), radix_(first.ports + 1), peer_(peer), at_(at), given_(given), spare_(spare) {}

  void append_to(Schedule& plan) const {
    const int levels = doublings(size_, radix_), ports = radix_ - 1;
    std::size_t waiting = 0;
    for (int k = 0; k < levels; ++k) {
      const Doubling step(size_, k, radix_);
      waiting = std::max(waiting, length(step.more(2)) + length(step.more(3)));
    }
    plan.use_scratch(spare_ + waiting);
    // Each level is an exchange, and a fold for the second and for the third port.
    plan.rounds(ports * levels, [=, self = *this](int k, Round& round) {
      const int level = levels - 1 - k / ports, port = k % ports + 1;
      const Doubling step(self.size_, level, self.radix_);
      if (port == 1)
        self.exchange(step, level == levels - 1, round);
      else
        self.fold_waiting(step, port, round);
    });
  }

 private:
  std::size_t length(int blocks) const {
    std::size_t elements = 0;
    if (blocks > 0) at_(0, blocks, [&](Slice slice) { elements += slice.count; });
    return elements;
  }
  /// The part of scratch for the data that `port` receives, to be folded into the sum in `slice`. `before` is the
  /// number of elements of the slices before it.
  Slice waiting(const Doubling& step, int port, std::size_t before, const Slice& slice) const {
    return scratch({spare_ + (port == 3 ? length(step.more(2)) : 0) + before, slice.count});
  }
  static bool is_complete(const Doubling& step, int port) { return step.have == 1 && step.more(port + 1) == 0; }
  void exchange(const Doubling& step, bool is_first, Round& round) const {
    const auto source = [&](Slice slice) {
      if (is_first) slice.memory = given_;
      return slice;
    };
    for (int port = 1; step.more(port) > 0; ++port) {
      const int behind = peer_(-step.far(port)), ahead = peer_(step.far(port));
      at_(step.far(port), step.more(port), [&](Slice slice) { round.add(send(ahead, source(slice))); });
      std::size_t before = 0;
      at_(0, step.more(port), [&](Slice slice) {
        round.add(port == 1 ? last(recv_reduce(behind, slice, source(slice)), is_complete(step, 1))
                            : recv(behind, waiting(step, port, before, slice)));
        before += slice.count;
      });
    }
    // nothing is received for these blocks: their sum is this rank's contribution
    if (is_first && step.more(1) < step.have)
      at_(step.more(1), step.have - step.more(1), [&](Slice slice) { round.add(copy(slice, source(slice))); });
  }
  void fold_waiting(const Doubling& step, int port, Round& round) const {
    if (step.more(port) == 0) return;
    std::size_t before = 0;
    at_(0, step.more(port), [&](Slice slice) {
      round.add(last(fold(slice, slice, waiting(step, port, before, slice)), is_complete(step, port)));
      before += slice.count;
    });
  }

  int size_, radix_;
  Peer peer_;
  At at_;
  Memory given_;
  std::size_t spare_;
};

/// The elements that a rank sends in the doubling. run(0, n) returns the elements of n blocks, its own first.
template <typename Run>
std::size_t sent_by_doubling(int size, int radix, Run run) {
  std::size_t elements = 0;
  for (int k = 0; k < doublings(size, radix); ++k)
    for (int port = 1; port < radix; ++port)
      if (const int more = Doubling(size, k, radix).more(port); more > 0) elements += run(0, more);
  return elements;
}

/// The blocks of a ring's ranks, in rank order in `out`, as the argument `at` of the templates above. The n blocks from
/// block `first` on are one slice, or two if they wrap around the last rank.
struct InRing {
  Ring ring;
  Blocks block;

  template <typename Each>
  void operator()(int first, int n, Each each) const {
    const int begin = modulo(ring.rank + first, ring.size), until = std::min(n, ring.size - begin);
    if (until > 0) each(out(block.run(begin, until)));
    if (n > until) each(out(block.run(0, n - until)));
  }
  std::size_t elements(int first, int n) const {
    std::size_t sum = 0;
    (*this)(first, n, [&](Slice slice) { sum += slice.count; });
    return sum;
  }
};

}  // namespace tutti::pieces
