// Hierarchical alltoall. The ranks with the same local index on every host form a column. Inside a host every rank
// sends its blocks for other hosts to the ranks of the destination's column; then each column exchanges these, with
// all blocks between two hosts in one message. The bytes between hosts are the same as in the linear algorithm, but
// in L times fewer messages. There are as many columns as the smallest host has ranks: for extra ranks of larger
// hosts, the carrier of a column collects and delivers. Any layout. With L ranks on each of H hosts, p = L H:
//
//   rounds 2, and 1 more where hosts differ; 1 with one host or one rank on each
//   elements (p-H) n + (p-L) n, n the count of one block     scratch 2(p-L) n     crossing p (p-L) n in all
//
// Träff & Hunold, "Decomposing MPI collectives for exploiting multi-lane communication", CLUSTER 2020.
#include <algorithm>

#include "collectives/algorithms/pieces.hpp"
#include "collectives/plan/algorithm.hpp"
#include "tutti/topology.hpp"

namespace tutti {
namespace {

class Exchange {
 public:
  explicit Exchange(const Shape& s)
      : s_(s),
        hosts_(s.host, s.size),
        block_(s.count, s.size),
        host_(hosts_.host_of(s.rank)),
        index_(hosts_.index_of(s.rank)) {
    if (!carries()) return;
    std::size_t blocks = 0;
    for (int h = 0; h < hosts_.count(); ++h) {
      leaving_.push_back(blocks * s.count);
      if (h != host_) blocks += members(host_).size() * hosts_.column(h, index_).size();
    }
    for (int h = 0; h < hosts_.count(); ++h) {
      arriving_.push_back(blocks * s.count);
      if (h != host_) blocks += members(h).size() * hosts_.column(host_, index_).size();
    }
    scratch_ = blocks * s.count;
  }

  Schedule plan() {
    Schedule whole;
    whole.use_scratch(scratch_);
    whole.round(collect());
    if (carries()) whole.round(cross());
    whole.round(deliver());
    return whole;
  }

 private:
  bool carries() const { return index_ < hosts_.columns(); }
  std::span<const int> members(int host) const { return hosts_[host]; }

  /// Scratch slice for the block from rank `from` of this host to the j-th rank of this column on host h, before it
  /// crosses.
  Slice to_cross(int h, int from, std::size_t j) const {
    const std::size_t row = hosts_.column(h, index_).size();
    const auto place = static_cast<std::size_t>(hosts_.index_of(from)) * row + j;
    return scratch({leaving_[static_cast<std::size_t>(h)] + place * s_.count, s_.count});
  }
  /// Scratch slice for the block from rank `from` of host h to the j-th rank of this column on this host, after it
  /// crossed.
  Slice crossed(int h, int from, std::size_t j) const {
    const std::size_t row = hosts_.column(host_, index_).size();
    const auto place = static_cast<std::size_t>(hosts_.index_of(from)) * row + j;
    return scratch({arriving_[static_cast<std::size_t>(h)] + place * s_.count, s_.count});
  }

  /// Inside the host: blocks for this host go directly to their destination, the others to the carriers of their
  /// columns.
  std::vector<Step> collect() const {
    std::vector<Step> steps{copy(out(block_[s_.rank]), in(block_[s_.rank]))};
    for (const int peer : members(host_)) {
      if (peer == s_.rank) continue;
      steps.push_back(send(peer, in(block_[peer])));
      steps.push_back(recv(peer, out(block_[peer])));
    }
    for (int h = 0; h < hosts_.count(); ++h) {
      if (h == host_) continue;
      for (int c = 0; c < hosts_.columns(); ++c)
        for (const int to : hosts_.column(h, c))
          if (c != index_) steps.push_back(send(members(host_)[static_cast<std::size_t>(c)], in(block_[to])));
      if (!carries()) continue;
      const std::vector<int> column = hosts_.column(h, index_);
      for (const int from : members(host_))
        for (std::size_t j = 0; j < column.size(); ++j)
          steps.push_back(from == s_.rank ? copy(to_cross(h, from, j), in(block_[column[j]]))
                                          : recv(from, to_cross(h, from, j)));
    }
    return steps;
  }

  /// One message to the carrier of this column on each other host.
  std::vector<Step> cross() const {
    std::vector<Step> steps;
    for (int k = 1; k < hosts_.count(); ++k) {
      const int ahead = modulo(host_ + k, hosts_.count()), behind = modulo(host_ - k, hosts_.count());
      const std::size_t out_of = members(host_).size() * hosts_.column(ahead, index_).size();
      const std::size_t into = members(behind).size() * hosts_.column(host_, index_).size();
      steps.push_back(send(members(ahead)[static_cast<std::size_t>(index_)],
                           scratch({leaving_[static_cast<std::size_t>(ahead)], out_of * s_.count})));
      steps.push_back(recv(members(behind)[static_cast<std::size_t>(index_)],
                           scratch({arriving_[static_cast<std::size_t>(behind)], into * s_.count})));
    }
    return steps;
  }

  /// Copies blocks to their places, or sends them to the extra ranks of the column.
  std::vector<Step> deliver() const {
    std::vector<Step> steps;
    const int carrier = members(host_)[static_cast<std::size_t>(index_ % hosts_.columns())];
    const std::vector<int> served = carries() ? hosts_.column(host_, index_) : std::vector<int>{};
    for (int h = 0; h < hosts_.count(); ++h)
      for (const int from : h == host_ ? std::span<const int>() : members(h)) {
        if (!carries()) steps.push_back(recv(carrier, out(block_[from])));
        for (std::size_t j = 0; j < served.size(); ++j)
          steps.push_back(served[j] == s_.rank ? copy(out(block_[from]), crossed(h, from, j))
                                               : send(served[j], crossed(h, from, j)));
      }
    return steps;
  }

  const Shape& s_;
  const Hosts hosts_;
  const Blocks block_;
  const int host_, index_;
  std::vector<std::size_t> leaving_, arriving_;  // by host: offset in a carrier's scratch
  std::size_t scratch_ = 0;
};

Schedule plan(const Shape& s) { return Exchange(s).plan(); }

Cost cost(const Shape& s) {
  const Hosts hosts(s.host, s.size);
  const auto p = static_cast<std::size_t>(s.size);
  std::size_t blocks = 0;
  for (int rank = 0; rank < s.size; ++rank) {
    const int host = hosts.host_of(rank), index = hosts.index_of(rank);
    const auto here = static_cast<std::size_t>(hosts.size_of(host));
    const bool carries = index < hosts.columns();
    std::size_t elsewhere = 0;  // ranks of this rank's column on other hosts
    for (int h = 0; carries && h < hosts.count(); ++h) elsewhere += h == host ? 0 : hosts.column(h, index).size();
    std::size_t sent = p - 1 - elsewhere + here * elsewhere;
    if (carries) sent += (hosts.column(host, index).size() - 1) * (p - here);
    blocks = std::max(blocks, sent);
  }
  const int rounds = (hosts.largest() > 1) + (hosts.count() > 1) + (hosts.is_cartesian() ? 0 : 1);
  return {rounds, blocks * s.count};
}

Crossing crossing(const Shape& s) {
  const Hosts hosts(s.host, s.size);
  Crossing what;
  for (int host = 0; host < hosts.count(); ++host) {
    const auto here = static_cast<std::size_t>(hosts.size_of(host));
    const std::size_t blocks = here * (static_cast<std::size_t>(s.size) - here);
    what.total += blocks * s.count;
    what.most = std::max(what.most, blocks * s.count);
  }
  return what;
}

}  // namespace

extern const Algorithm alltoall_hierarchical{
    .kind = Kind::alltoall,
    .name = "hierarchical",
    .idea = "collected on each host, so that two hosts exchange few long messages, for small blocks",
    .plan = plan,
    .cost = cost,
    .crossing = crossing,
};

}  // namespace tutti
