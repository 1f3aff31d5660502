// Halving and doubling for any number of ranks: a reduce-scatter and an allgather of blocks, each in few rounds and
// with the least data there can be. Templates, since algorithms keep their blocks in different places.
#pragma once

#include <algorithm>
#include <cstdint>

#include "collectives/plan/geometry.hpp"
#include "collectives/plan/schedule.hpp"

namespace tutti::pieces {

/// How many times more is known after a round of the allgather. 4 halves the rounds, for as little data in more
/// messages at a time: so it is for blocks that together are short. Long ones fill the links better one after another.
constexpr int radix_for(std::size_t elements) noexcept { return elements <= std::size_t{16} << 10 ? 4 : 2; }

/// Round k of the allgather, which is Bruck's with one port or three: this rank knows the `have` blocks from its own
/// on; it sends the first of them to the ranks have, 2 have and 3 have behind, and learns the next ones from the ranks
/// as far ahead. In the reduce-scatter the rounds come in the opposite order, and messages go the other way.
struct Doubling {
  Doubling(int blocks, int k, int radix) noexcept : have(1), all(blocks), ports(radix - 1) {
    for (int i = 0; i < k; ++i) have *= radix;
  }
  /// How many blocks go to the rank that is `port` times as far, and how far that is; zero if there are no more.
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

/// The ranks of a ring by their distance.
struct Neighbours {
  Ring ring;
  int operator()(int ahead) const noexcept { return modulo(ring.rank + ahead, ring.size); }
};

/// Collects the blocks of all ranks, of which this rank's is in its place at the start. `at(first, n, each)` calls
/// `each` with the slices of the blocks first, ..., first + n - 1, counted from this rank's own; `peer(i)` is the rank
/// whose own block is the i-th from there, which may be negative.
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

/// Folds the blocks of all ranks, each at its owner: the doubling played backwards. `at` as above, for the places of
/// the sums. This rank's contributions are in the same places of the memory `given`. What comes from the second and the
/// third port waits in scratch, from `spare` on.
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
  /// The part of scratch in which what comes from this port waits for the sum in `slice`; `before` are the elements of
  /// the slices before it.
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
    // what the next round has no sums of
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

/// What a rank sends in the doubling: run(0, n) elements are in the first n blocks, from its own on.
template <typename Run>
std::size_t sent_by_doubling(int size, int radix, Run run) {
  std::size_t elements = 0;
  for (int k = 0; k < doublings(size, radix); ++k)
    for (int port = 1; port < radix; ++port)
      if (const int more = Doubling(size, k, radix).more(port); more > 0) elements += run(0, more);
  return elements;
}

/// Blocks in the order of a ring's ranks. Those from this rank's own on are in one slice, or in two where they wrap
/// around the last one.
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
