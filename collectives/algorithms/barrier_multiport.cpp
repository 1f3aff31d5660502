// Multiport barrier. The ranks of a host run a dissemination barrier at the beginning and at the end. In between there
// is a dissemination of radix r among the hosts: in round j every host notifies the hosts d r^j ahead, 0 < d < r, at
// the same time, by different ranks. Up to eight ranks of a host send, its carriers: as many as the smallest host has
// ranks. Between two such rounds the carriers of a host run a dissemination barrier. With L ranks on each of H hosts,
// c = min(L, 8), and R = ceil(log_r H), where r is about c + 1 (see multiport.hpp):
//
//   rounds 2 ceil(log2 L) + R + (R-1) ceil(log2 c)     elements 0     scratch none
//   crossing no elements, only about H (r-1) R notifications
//
// Hensgen, Finkel & Manber, "Two algorithms for barrier synchronization", Int. J. Parallel Programming 1988; Bruck, Ho,
// Kipnis, Upfal & Weathersby, "Efficient algorithms for all-to-all communications in multiport message-passing
// systems", IEEE TPDS 1997.
#include "collectives/algorithms/expenses.hpp"
#include "collectives/algorithms/multiport.hpp"

namespace tutti {
namespace {

/// Round k of a dissemination barrier among `ranks`; `index` is this rank's index; if it is too large, nothing is done.
void meet(std::span<const int> ranks, int index, int k, Round& round) {
  const int size = static_cast<int>(ranks.size()), distance = 1 << k;
  if (index >= size || distance >= size) return;
  round.add(notify(ranks[static_cast<std::size_t>(modulo(index + distance, size))]),
            await(ranks[static_cast<std::size_t>(modulo(index - distance, size))]));
}

Schedule plan(const Shape& s) {
  const Hosts& hosts = hosts_of(s);
  const int host = hosts.host_of(s.rank), index = hosts.index_of(s.rank), count = hosts.count();
  const std::span<const int> all = hosts[host];
  const auto meet_all = [=](int k, Round& round) { meet(all, index, k, round); };
  Schedule barrier;
  barrier.rounds(log2_ceil(hosts.size_of(host)), meet_all);
  if (count == 1) return barrier;
  const pieces::Ports ports(hosts.count(), pieces::carriers_of(hosts));
  const int each = 1 + log2_ceil(ports.carriers);
  if (index < ports.carriers)
    barrier.rounds((ports.rounds - 1) * each + 1, [=, &hosts](int k, Round& round) {
      if (k % each > 0) return meet(all.first(static_cast<std::size_t>(ports.carriers)), index, k % each - 1, round);
      const int distance = ports.before(k / each);
      for (int port = index; port < ports.radix - 1; port += ports.carriers) {
        const std::int64_t ahead = std::int64_t{port + 1} * distance;
        if (ahead >= count) break;
        const auto carrier = [&](int there) { return hosts[modulo(there, count)][static_cast<std::size_t>(index)]; };
        round.add(notify(carrier(host - count + static_cast<int>(ahead))),
                  await(carrier(host - static_cast<int>(ahead))));
      }
    });
  barrier.rounds(log2_ceil(hosts.size_of(host)), meet_all);
  return barrier;
}

int rounds(const Hosts& hosts) {
  const int inside = log2_ceil(hosts.largest());
  if (hosts.count() == 1) return inside;
  const pieces::Ports ports(hosts.count(), pieces::carriers_of(hosts));
  return 2 * inside + ports.rounds + (ports.rounds - 1) * log2_ceil(ports.carriers);
}

}  // namespace

extern const Algorithm barrier_multiport{
    .kind = Kind::barrier,
    .name = "multiport",
    .idea = "dissemination in which all ranks of a host notify different hosts at the same time",
    .plan = plan,
    .cost = [](const Shape& s) -> Cost {
      return {rounds(hosts_of(s)), 0};
    },
    .crossing = [](const Shape&) -> Crossing { return {}; },
    .expense =
        [](const Shape& s) {
          const Hosts& hosts = hosts_of(s);
          const pieces::Ports ports(hosts.count(), pieces::carriers_of(hosts));
          const int across = hosts.count() > 1 ? ports.rounds : 0;
          Expense one = expenses::exchange(expenses::inside, rounds(hosts) - across, 0);
          one.chain.between.messages = across;
          one.load.between.messages = across * ports.in_turn();
          one.stay = one.chain;
          return one;
        },
    .alike = true,
};

}  // namespace tutti
