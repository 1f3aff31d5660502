// Multiport reduce-scatter: the multiport allgather in reverse. In a round between hosts, a host has sums of the blocks
// of many hosts. To each host d * have ahead, 0 < d < r, it sends the sums for that host and the have - 1 hosts after
// it. Then it has sums for `have` hosts, its own first. Up to eight ranks of a host, its carriers, send, each for
// consecutive d. Before a round the carriers halve the sums to be sent among themselves, so that each has the host's
// sums that it sends. After the last round they halve the blocks of their own host. Other ranks first send all their
// data to a carrier, and receive their block at the end. Blocks are packed, ordered by host from the own host on. For
// small blocks. For any placement of ranks. With L ranks on each of H hosts, p = L H, c the largest power of two at
// most L and 8, m = ceil((r-1)/c), R = ceil(log_r H), r about c + 1:
//
//   rounds (R+1) log2 c + R, and ceil(L/c) more if L > c     elements about 2 p n, n the count of one block
//   scratch p n; if m > 1, up to m times that     crossing hosts p n (H-1) in all, (p-L) n from each host
//
// Bruck, Ho, Kipnis, Upfal & Weathersby, "Efficient algorithms for all-to-all communications in multiport
// message-passing systems", IEEE TPDS 1997; Träff, "Optimal, non-pipelined reduce-scatter and allreduce algorithms",
// arXiv:2410.14234, 2024; Huang et al., "PiP-MColl: process-in-process-based multi-object MPI collectives", CLUSTER
// 2023.
#include <algorithm>
#include <utility>

#include "collectives/algorithms/crossings.hpp"
#include "collectives/algorithms/packed_hosts.hpp"

namespace tutti {
namespace {

struct Scatterer : pieces::PackedHosts {
  using PackedHosts::PackedHosts;

  /// The number of hosts for which a host has sums after this round between hosts.
  int have_after(int round) const { return ports.before(ports.rounds - 1 - round); }
  /// The blocks of this host that carriers carrier, ..., carrier + n - 1 complete.
  Slice completed(int carrier, int n) const {
    const Range ranks = Chunks(times(inside().size, 1), served.columns).run(carrier, n);
    return of_ranks(static_cast<int>(ranks.offset), static_cast<int>(ranks.count));
  }
  /// The scratch for the sums of n hosts that a carrier receives by port `port` > 0.
  Slice apart(int have, int port, int n) const {
    const std::size_t each = of_hosts(0, std::min(have, hosts->count())).count;
    return scratch({all().count + static_cast<std::size_t>(port - 1) * each, of_hosts(0, n).count});
  }
  std::size_t room() const {
    std::size_t most = all().count;
    for (int k = 0; hosts->count() > 1 && k < ports.rounds; ++k) {
      const Slice last_one = apart(have_after(k), std::max(1, share(have_after(k)) - 1), 1);
      if (share(have_after(k)) > 1)
        most = std::max(most, last_one.offset + of_hosts(0, std::min(have_after(k), hosts->count())).count);
    }
    return most;
  }

  /// Calls halve(peer, given, kept, n) for a step of a halving among carriers: this rank sends `peer` the n parts from
  /// part `given` on, and keeps the n parts from part `kept` on.
  template <typename Halve>
  void halve_parts(int step, Halve halve) const {
    const int n = 1 << (doublings() - 1 - step), kept = index & ~(n - 1);
    halve(member(index ^ n), kept ^ n, kept, n);
  }
  /// Round k of the phase between hosts. Each round between hosts is halvings, an exchange, and folds of received sums.
  void scatter(int k, Round& round) const {
    const int each = doublings() + ports.each, have = have_after(k / each);
    k %= each;
    if (k < doublings())
      return halve_parts(k, [&](int peer, int given, int kept, int n) {
        round.add(send(peer, shared(have, given, n)), recv_reduce(peer, shared(have, kept, n)));
      });
    k -= doublings();
    int port = 0, ports_here = 0;
    each_port(have, [&](int, int) { ++ports_here; });
    each_port(have, [&](int distance, int n) {
      const Slice sums = of_hosts(0, n);
      const bool is_last = doublings() == 0 && have == 1 && port == ports_here - 1;
      if (k == 0) {
        round.add(send(across(distance), of_hosts(distance, distance + n)));
        round.add(port == 0 ? last(recv_reduce(across(-distance), sums), is_last)
                            : recv(across(-distance), apart(have, port, n)));
      } else if (port == k) {
        round.add(last(fold(sums, sums, apart(have, port, n)), is_last));
      }
      ++port;
    });
  }
  void complete(int k, Round& round) const {
    halve_parts(k, [&](int peer, int given, int kept, int n) {
      round.add(send(peer, completed(given, n)), last(recv_reduce(peer, completed(kept, n)), n == 1));
    });
  }
  /// Sends the blocks from the carriers that have completed them to their owners.
  void deliver(Round& round) const {
    for (int carrier = 0; carrier < served.columns; ++carrier) {
      const Range ranks = Chunks(times(inside().size, 1), served.columns)[carrier];
      for (auto i = static_cast<int>(ranks.offset); i < static_cast<int>(ranks.offset + ranks.count); ++i) {
        if (i == index)
          round.add(carrier == index ? copy(out({0, count}), of_ranks(i, 1)) : recv(member(carrier), out({0, count})));
        else if (carrier == index)
          round.add(send(member(i), of_ranks(i, 1)));
      }
    }
  }
};

Schedule plan(const Shape& s) {
  const Scatterer self(s, s.rank);
  Schedule scatter;
  scatter.use_scratch(self.served.carries() ? self.room() : self.all().count);
  scatter.round([=](Round& round) {
    self.each_run(Memory::in, [&](Slice packed, Slice blocks) { round.add(copy(packed, blocks)); });
  });
  if (!self.served.carries()) {
    scatter.round([=](Round& round) { round.add(send(self.member(self.served.column), self.all())); });
  } else {
    const int others = self.served.ring.size - 1;
    const bool are_all = self.hosts->count() == 1 && self.doublings() == 0;
    scatter.rounds(others, [=](int k, Round& round) {
      const int rank = self.member(self.served.column + (k + 1) * self.served.columns);
      round.add(last(recv_reduce(rank, self.all()), are_all && k == others - 1));
    });
    if (self.hosts->count() > 1)
      scatter.rounds(self.ports.rounds * (self.doublings() + self.ports.each),
                     [=](int k, Round& round) { self.scatter(k, round); });
    scatter.rounds(self.doublings(), [=](int k, Round& round) { self.complete(k, round); });
  }
  scatter.round([=](Round& round) { self.deliver(round); });
  return scatter;
}

/// Elements that a rank sends.
std::size_t sent(const Scatterer& self) {
  if (!self.served.carries()) return self.all().count;
  std::size_t sum = self.completed(self.index, 1).count;
  const Range mine = Chunks(times(self.inside().size, 1), self.served.columns)[self.index];
  if (mine.offset <= times(self.index, 1) && times(self.index, 1) < mine.offset + mine.count) sum -= self.count;
  const auto halved = [&](auto of) {
    for (int k = 0; k < self.doublings(); ++k)
      self.halve_parts(k, [&](int, int given, int, int n) { sum += of(given, n).count; });
  };
  halved([&](int given, int n) { return self.completed(given, n); });
  for (int k = 0; self.hosts->count() > 1 && k < self.ports.rounds; ++k) {
    const int have = self.have_after(k);
    halved([&](int given, int n) { return self.shared(have, given, n); });
    self.each_port(have, [&](int distance, int n) { sum += self.of_hosts(distance, distance + n).count; });
  }
  return sum;
}

Cost cost(const Shape& s) {
  const Hosts& hosts = hosts_of(s);
  std::size_t elements = 0;
  for (int rank = 0; rank < s.size; ++rank) elements = std::max(elements, sent({s, rank}));
  const Scatterer any(s, 0);
  const int across = hosts.count() > 1 ? any.ports.rounds * (1 + any.doublings()) : 0;
  const int others = pieces::Ports::ceiling(hosts.largest(), any.served.columns) - 1;
  return {across + any.doublings() + others + std::min(others, 1), elements};
}

Crossing crossing(const Shape& s) {
  const Hosts& hosts = hosts_of(s);
  Crossing what{.total = pieces::every_block_once(s)};
  for (int host = 0; host < hosts.count(); ++host)
    what.most = std::max(what.most, times(s.size - hosts.size_of(host), s.count));
  return what;
}

Expense expense(const Shape& s) {
  const Hosts& hosts = hosts_of(s);
  const Scatterer any(s, 0);
  const double n = static_cast<double>(s.count), p = s.size, carriers = any.served.columns, count = hosts.count();
  const double rounds = count > 1 ? any.ports.rounds : 0,
               others = pieces::Ports::ceiling(hosts.largest(), any.served.columns) - 1;
  const double halved = n * (hosts.largest() - 1) + static_cast<double>(any.inside_chain());
  Expense one;
  one.load.within = {(rounds + 1) * any.doublings() + others + std::min(others, 1.0), halved + others * p * n};
  one.load.between = {rounds * any.ports.in_turn(), (p - p / count) * n};
  one.load.folded = p * n + halved + others * p * n + (p - p / count) * n / carriers;
  one.chain = one.load;
  one.chain.between.messages = rounds;
  return one;
}

}  // namespace

extern const Algorithm reduce_scatter_multiport{
    .kind = Kind::reduce_scatter,
    .name = "multiport",
    .idea = "the multiport allgather backwards: the fewest rounds between hosts, for small blocks",
    .plan = plan,
    .cost = cost,
    .lanes = false,  // cutting the small blocks into parts (lanes) would only make these wait for one another
    .crossing = crossing,
    .expense = expense,
};

}  // namespace tutti
