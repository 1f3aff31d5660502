// Hierarchical alltoall. The ranks with the same local index on every host form a column. Inside a host every rank
// sends its blocks for other hosts to the ranks of the destination's column; then each column exchanges these, with
// all blocks between two hosts in one message. The bytes between hosts are the same as in the linear algorithm, but
// in L times fewer messages. There are as many columns as the smallest host has ranks: for extra ranks of larger
// hosts, a column's rank on their host, its carrier, collects and delivers. For any placement of ranks. With L ranks on
// each of H hosts, p = L H:
//
//   rounds 2, and 1 more if ranks per host differ; 1 with one host or one rank on each
//   elements (p-H) n + (p-L) n, n the count of one block     scratch 2(p-L) n     crossing hosts p (p-L) n in all
//
// Träff & Hunold, "Decomposing MPI collectives for exploiting multi-lane communication", CLUSTER 2020.
#include <algorithm>

#include "collectives/algorithms/expenses.hpp"
#include "collectives/algorithms/pieces.hpp"
#include "collectives/plan/algorithm.hpp"
#include "tutti/topology.hpp"

namespace tutti {
namespace {

/// One rank's part. Plain data, because the schedule's rounds store a copy.
class Exchange {
 public:
  explicit Exchange(const Shape& s)
      : hosts_(&hosts_of(s)),
        block_(s.count, s.size),
        count_(s.count),
        rank_(s.rank),
        host_(hosts_->host_of(s.rank)),
        index_(hosts_->index_of(s.rank)),
        here_(members(host_).size()) {
    if (!carries()) return;
    own_ = hosts_->column(host_, index_).size();
    elsewhere_ = hosts_->whole_column(index_).size() - own_;
  }

  /// The elements of all blocks from this host to the column's ranks on other hosts, and of all blocks from other hosts
  /// to the column's ranks on this host.
  std::size_t scratch_elements() const {
    return (here_ * elsewhere_ + (static_cast<std::size_t>(block_.parts()) - here_) * own_) * count_;
  }
  bool carries() const { return index_ < hosts_->columns(); }

  /// Inside the host: blocks for this host go directly to their destination, the others to the carriers of their
  /// columns.
  void collect(Round& round) const {
    round.add(copy(out(block_[rank_]), in(block_[rank_])));
    for (const int peer : members(host_))
      if (peer != rank_) round.add(send(peer, in(block_[peer])), recv(peer, out(block_[peer])));
    for (int h = 0; h < hosts_->count(); ++h)
      if (h != host_) collect_for(h, round);
  }

  /// One message to the carrier of this column on each other host.
  void cross(Round& round) const {
    for (int k = 1; k < hosts_->count(); ++k) {
      const int ahead = modulo(host_ + k, hosts_->count()), behind = modulo(host_ - k, hosts_->count());
      const std::size_t out_of = here_ * hosts_->column(ahead, index_).size(), into = members(behind).size() * own_;
      round.add(send(carrier(ahead, index_), scratch({leaving(ahead), out_of * count_})),
                recv(carrier(behind, index_), scratch({arriving(behind), into * count_})));
    }
  }

  /// Copies blocks to their places, or sends them to the extra ranks of the column.
  void deliver(Round& round) const {
    const int from_carrier = carrier(host_, index_ % hosts_->columns());
    const std::span<const int> served = carries() ? hosts_->column(host_, index_) : std::span<const int>();
    for (int h = 0; h < hosts_->count(); ++h)
      for (const int from : h == host_ ? std::span<const int>() : members(h)) {
        if (!carries()) round.add(recv(from_carrier, out(block_[from])));
        for (std::size_t j = 0; j < served.size(); ++j)
          round.add(served[j] == rank_ ? copy(out(block_[from]), crossed(h, from, j))
                                       : send(served[j], crossed(h, from, j)));
      }
  }

 private:
  std::span<const int> members(int host) const { return (*hosts_)[host]; }
  int carrier(int host, int column) const { return members(host)[static_cast<std::size_t>(column)]; }

  void collect_for(int h, Round& round) const {
    for (int c = 0; c < hosts_->columns(); ++c)
      for (const int to : hosts_->column(h, c))
        if (c != index_) round.add(send(carrier(host_, c), in(block_[to])));
    if (!carries()) return;
    const std::span<const int> column = hosts_->column(h, index_);
    for (const int from : members(host_))
      for (std::size_t j = 0; j < column.size(); ++j)
        round.add(from == rank_ ? copy(to_cross(h, from, j), in(block_[column[j]])) : recv(from, to_cross(h, from, j)));
  }

  /// leaving(), arriving(): offsets in a carrier's scratch of the blocks to host h, and of the blocks from host h.
  std::size_t leaving(int h) const {
    const std::size_t before = hosts_->column_begin(h, index_) - hosts_->column_begin(0, index_);
    return here_ * (before - (h > host_ ? own_ : 0)) * count_;
  }
  std::size_t arriving(int h) const {
    const std::size_t before = static_cast<std::size_t>(hosts_->before(h)) - (h > host_ ? here_ : 0);
    return (here_ * elsewhere_ + before * own_) * count_;
  }
  /// Scratch slice for the block from rank `from` of this host to the j-th rank of this column on host h, before it
  /// crosses.
  Slice to_cross(int h, int from, std::size_t j) const {
    const std::size_t row = hosts_->column(h, index_).size();
    const auto place = static_cast<std::size_t>(hosts_->index_of(from)) * row + j;
    return scratch({leaving(h) + place * count_, count_});
  }
  /// Scratch slice for the block from rank `from` of host h to the j-th rank of this column on this host, after it
  /// crossed.
  Slice crossed(int h, int from, std::size_t j) const {
    const auto place = static_cast<std::size_t>(hosts_->index_of(from)) * own_ + j;
    return scratch({arriving(h) + place * count_, count_});
  }

  const Hosts* hosts_;
  Blocks block_;
  std::size_t count_;
  int rank_, host_, index_;
  std::size_t here_;                     // ranks of this host
  std::size_t own_ = 0, elsewhere_ = 0;  // ranks of a carrier's column on this host, and on others
};

Schedule plan(const Shape& s) {
  const Exchange exchange(s);
  Schedule whole;
  whole.use_scratch(exchange.scratch_elements());
  whole.round([=](Round& round) { exchange.collect(round); });
  if (exchange.carries()) whole.round([=](Round& round) { exchange.cross(round); });
  whole.round([=](Round& round) { exchange.deliver(round); });
  return whole;
}

Cost cost(const Shape& s) {
  const Hosts& hosts = hosts_of(s);
  const auto p = static_cast<std::size_t>(s.size);
  std::size_t blocks = 0;
  for (int rank = 0; rank < s.size; ++rank) {
    const int host = hosts.host_of(rank), index = hosts.index_of(rank);
    const auto here = static_cast<std::size_t>(hosts.size_of(host));
    const bool carries = index < hosts.columns();
    const std::size_t own = carries ? hosts.column(host, index).size() : 0;
    const std::size_t elsewhere = carries ? hosts.whole_column(index).size() - own : 0;
    std::size_t sent = p - 1 - elsewhere + here * elsewhere;
    if (carries) sent += (own - 1) * (p - here);
    blocks = std::max(blocks, sent);
  }
  const int rounds = (hosts.largest() > 1) + (hosts.count() > 1) + (hosts.is_cartesian() ? 0 : 1);
  return {rounds, blocks * s.count};
}

Crossing crossing(const Shape& s) {
  const Hosts& hosts = hosts_of(s);
  Crossing what;
  for (int host = 0; host < hosts.count(); ++host) {
    const auto here = static_cast<std::size_t>(hosts.size_of(host));
    const std::size_t blocks = here * (static_cast<std::size_t>(s.size) - here);
    what.total += blocks * s.count;
    what.most = std::max(what.most, blocks * s.count);
  }
  return what;
}

Expense expense(const Shape& s) {
  using namespace expenses;
  const Hosts& hosts = hosts_of(s);
  const double ranks = hosts.largest(), others = hosts.count() - 1, own = ranks / hosts.columns();
  const double collected = (ranks - 1) * (others * own + 1), crossing = others * ranks * own;
  return at_once(inside, collected, collected * number(s.count), crossing * number(s.count)) +
         at_once(across(hosts.columns()), others, crossing * number(s.count), crossing * number(s.count));
}

}  // namespace

extern const Algorithm alltoall_hierarchical{
    .kind = Kind::alltoall,
    .name = "hierarchical",
    .idea = "collected on each host, so that two hosts exchange few long messages, for small blocks",
    .plan = plan,
    .cost = cost,
    .crossing = crossing,
    .expense = expense,
    .alike = true,
};

}  // namespace tutti
