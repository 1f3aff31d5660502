// Hierarchical Bruck alltoall, for hosts with equally many ranks. The ranks with the same local index on every host
// form a column. Inside a host every rank sends its blocks for each column, packed, to the host's rank in that column.
// Then each column performs a Bruck alltoall across hosts. A rank has a row for each rank of its host. Slot j of a row
// is the block that still has to move j hosts ahead. In round k, all slots j with digit d at place k, to the base 4,
// move d 4^k hosts; those of all rows are one message. After the last round, slot j of row i is the block from rank i
// of the host j behind. Blocks cross hosts several times, but in few messages: for small blocks. With L ranks on each
// of H hosts, p = L H, b the number of nonzero digits of 0 to H-1, about 3/4 H log4 H:
//
//   rounds ceil(log4 H), and 1 more if L > 1     elements (p-H) n + L b n, n the count of one block
//   scratch 3p n     crossing hosts L p b n in all, L L b n from each host
//
// Bruck, Ho, Kipnis, Upfal & Weathersby, "Efficient algorithms for all-to-all communications in multiport
// message-passing systems", IEEE TPDS 1997; Träff & Hunold, "Decomposing MPI collectives for exploiting multi-lane
// communication", CLUSTER 2020.
#include "collectives/algorithms/column.hpp"
#include "collectives/algorithms/expenses.hpp"
#include "collectives/algorithms/pieces.hpp"
#include "collectives/plan/algorithm.hpp"

namespace tutti {
namespace {

constexpr int radix = 4;

int rounds_for(int hosts) { return (log2_ceil(hosts) + 1) / 2; }

/// One rank's part. Scratch has first the packed columns, later overwritten by the slots to be sent; then the rows;
/// then the received slots. Plain data.
struct Columns {
  pieces::PackedColumns packed;
  std::size_t count;
  Ring inside, across;

  explicit Columns(const Shape& s)
      : packed(s, nullptr), count(s.count), inside(packed.inside()), across(packed.across()) {}

  std::span<const int> members() const { return packed.hosts()[packed.host()]; }
  std::size_t row_begin(int i) const { return packed.total() + times(i * across.size, count); }
  Slice row(int i) const { return scratch({row_begin(i), times(across.size, count)}); }

  void pack(Round& round) const {
    for (int column = 0; column < inside.size; ++column)
      packed.each_group(column, [&](Slice slots, int rank, std::ptrdiff_t stride) {
        round.add(copy(column == inside.rank ? own(slots) : slots, packed.spread(Memory::in, rank, slots, stride)));
      });
  }
  void exchange(Round& round) const {
    for (int k = 1; k < inside.size; ++k) {
      const int ahead = modulo(inside.rank + k, inside.size), behind = modulo(inside.rank - k, inside.size);
      round.add(send(members()[static_cast<std::size_t>(ahead)], packed.column(ahead)),
                recv(members()[static_cast<std::size_t>(behind)], row(behind)));
    }
  }
  /// Round k has three parts: 0 packs the slots to be sent, 1 sends and receives, 2 unpacks the received slots.
  void move(int k, int part, Round& round) const {
    const int place = 1 << (2 * k);
    std::size_t before = 0;
    for (int digit = 1; digit < radix; ++digit) {
      const std::size_t slots = pieces::movers(across.size, place, digit, radix) * count;
      const Slice leaving = scratch({before, times(inside.size, slots)});
      const Slice arriving = scratch({2 * packed.total() + before, leaving.count});
      before += leaving.count;
      if (slots == 0) continue;
      if (part == 1) {
        const int far = digit * place;
        round.add(send(carrier(modulo(across.rank + far, across.size)), leaving),
                  recv(carrier(modulo(across.rank - far, across.size)), arriving));
        continue;
      }
      for (int i = 0; i < inside.size; ++i) {
        const std::size_t run = times(place, count), at = times(i, slots);
        const Slice moving = in_runs(scratch({row_begin(i) + times(digit, run), slots}), run,
                                     static_cast<std::ptrdiff_t>(times(radix, run)));
        round.add(part == 0 ? copy(scratch({leaving.offset + at, slots}), moving)
                            : copy(moving, scratch({arriving.offset + at, slots})));
      }
    }
  }
  void put_in_place(Round& round) const {
    for (int i = 0; i < inside.size; ++i) {
      const auto rank_at = [&](std::size_t j) {
        return rank_of(modulo(across.rank - static_cast<int>(j), across.size), i);
      };
      pieces::each_progression(static_cast<std::size_t>(across.size), true, rank_at,
                               [&](std::size_t j, std::size_t n, std::ptrdiff_t stride) {
                                 const Slice slots = scratch({row_begin(i) + j * count, n * count});
                                 round.add(copy(packed.spread(Memory::out, rank_at(j), slots, stride), slots));
                               });
    }
  }

 private:
  /// The place in this rank's own row for slots of its own column, which are packed there directly.
  Slice own(Slice slots) const {
    slots.offset += row_begin(inside.rank) - packed.column(inside.rank).offset;
    return slots;
  }
  int rank_of(int host, int index) const { return packed.hosts()[host][static_cast<std::size_t>(index)]; }
  int carrier(int host) const { return rank_of(host, inside.rank); }
};

Schedule plan(const Shape& s) {
  const Columns columns(s);
  Schedule whole;
  whole.use_scratch(times(3 * s.size, s.count));
  whole.round([=](Round& round) { columns.pack(round); });
  whole.round([=](Round& round) { columns.exchange(round); });
  whole.rounds(3 * rounds_for(columns.across.size), [=](int k, Round& round) { columns.move(k / 3, k % 3, round); });
  whole.round([=](Round& round) { columns.put_in_place(round); });
  return whole;
}

Cost cost(const Shape& s) {
  const Hosts& hosts = hosts_of(s);
  const auto ranks = static_cast<std::size_t>(hosts.smallest());
  const std::size_t inside = (ranks - 1) * static_cast<std::size_t>(hosts.count());
  const std::size_t across = ranks * pieces::all_movers(hosts.count(), radix);
  return {rounds_for(hosts.count()) + (ranks > 1 ? 1 : 0), (inside + across) * s.count};
}

Crossing crossing(const Shape& s) {
  const Hosts& hosts = hosts_of(s);
  const auto ranks = static_cast<std::size_t>(hosts.smallest());
  const std::size_t from_host = ranks * ranks * pieces::all_movers(hosts.count(), radix) * s.count;
  return {times(hosts.count(), from_host), from_host};
}

Expense expense(const Shape& s) {
  using namespace expenses;
  const Hosts& hosts = hosts_of(s);
  const double all = s.size * number(s.count), ranks = hosts.smallest(), others = ranks - 1;
  const double moved = ranks * number(pieces::all_movers(hosts.count(), radix) * s.count);
  return here(2 * all) + at_once(inside, others, others / ranks * all) +
         exchange(across(hosts.smallest()), rounds_for(hosts.count()), moved, 2 * moved);
}

}  // namespace

extern const Algorithm alltoall_hierarchical_bruck{
    .kind = Kind::alltoall,
    .name = "hierarchical_bruck",
    .idea = "collected on each host, then up to 3 times 4^k hosts further in round k: for small blocks",
    .plan = plan,
    .cost = cost,
    .fits = [](const Shape& s) { return hosts_of(s).is_cartesian(); },
    .crossing = crossing,
    .expense = expense,
    .alike = true,
};

}  // namespace tutti
