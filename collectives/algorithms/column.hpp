// Columns packed in scratch, for algorithms that send all blocks of a column in few messages. A column is the ranks
// with the same local index (modulo the smallest host's ranks) on all hosts; the first on a host is its carrier.
#pragma once

#include <span>

#include "collectives/plan/geometry.hpp"
#include "collectives/plan/schedule.hpp"
#include "tutti/topology.hpp"

namespace tutti::pieces {

/// Splits a list of ranks into groups of consecutive elements with equal differences `stride`. Calls each(i, n, stride)
/// for elements i, ..., i + n - 1. Every rank is a group of its own if `in_groups` is false.
template <typename RankAt, typename Each>
void each_progression(std::size_t ranks, bool in_groups, RankAt rank_at, Each each) {
  for (std::size_t i = 0; i < ranks;) {
    std::size_t next = i + 1;
    const std::ptrdiff_t stride = next < ranks ? rank_at(next) - rank_at(i) : 1;
    while (in_groups && next < ranks && rank_at(next) - rank_at(next - 1) == stride) ++next;
    each(i, next - i, stride);
    i = next;
  }
}

/// The blocks of all ranks, packed in scratch from its beginning: one column after the other. A column is ordered by
/// host, starts with this rank's host and wraps around. So the blocks of one message are contiguous. Plain data.
class PackedColumns {
 public:
  /// Each block has `s.count` elements, or the size that `table` has for it.
  PackedColumns(const Shape& s, const BlockTable* table)
      : hosts_(&hosts_of(s)),
        block_(s.count, s.size, table),
        count_(s.count),
        table_(table),
        host_(hosts_->host_of(s.rank)),
        index_(hosts_->index_of(s.rank)) {}

  const Hosts& hosts() const noexcept { return *hosts_; }
  const Blocks& block() const noexcept { return block_; }
  int host() const noexcept { return host_; }
  int index() const noexcept { return index_; }
  bool carries() const noexcept { return index_ < hosts_->columns(); }
  Ring across() const noexcept { return {host_, hosts_->count()}; }
  Ring inside() const noexcept { return {index_, hosts_->size_of(host_)}; }
  /// For carriers: the ranks of this rank's column on this host, itself first.
  std::span<const int> served() const noexcept { return hosts_->column(host_, index_); }
  /// The carrier of this rank's column.
  int carrier() const noexcept { return (*hosts_)[host_][static_cast<std::size_t>(index_ % hosts_->columns())]; }

  std::size_t total() const noexcept { return before(places()); }  ///< elements
  Slice column(int column) const noexcept { return scratch(of_column(column)); }
  /// The blocks of this rank's column on n hosts: `first` hosts after this rank's host, and those that follow.
  Slice run(int first, int n) const noexcept {
    return scratch({from_here(index_, first), from_here(index_, first + n) - from_here(index_, first)});
  }
  /// The argument `at` of the templates in halving.hpp.
  template <typename Each>
  void operator()(int first, int n, Each each) const {
    each(run(first, n));
  }
  /// The block of rank served()[i].
  Slice own(std::size_t i) const noexcept {
    const std::size_t place = hosts_->column_begin(host_, index_);
    return scratch({of_column(index_).offset + before(place + i) - before(place), block_[served()[i]].count});
  }

  /// Calls each(packed, rank, stride) for every group of blocks of a column that are contiguous in scratch and at equal
  /// distances in rank order. `rank` is the rank of the first block, `stride` the distance in ranks.
  template <typename Each>
  void each_group(int column, Each each) const {
    group(column, host_, hosts_->count(), of_column(column).offset, each);
    group(column, 0, host_, from_here(column, hosts_->count() - host_), each);
  }
  /// The places of such a group's blocks in `memory`, where blocks are in rank order: a slice in runs.
  Slice spread(Memory memory, int rank, Slice packed, std::ptrdiff_t stride) const noexcept {
    const Slice all{memory, block_[rank].offset, packed.count};
    if (table_ != nullptr || count_ == 0) return all;
    return in_runs(all, count_, stride * static_cast<std::ptrdiff_t>(count_));
  }

 private:
  std::size_t places() const noexcept { return static_cast<std::size_t>(block_.parts()); }
  /// The elements of the first `place` blocks, if the blocks of all columns are in column order.
  std::size_t before(std::size_t place) const noexcept {
    return table_ != nullptr ? table_->by_column()[place] : place * count_;
  }
  Range of_column(int column) const noexcept {
    const std::size_t begin = before(hosts_->column_begin(0, column));
    return {begin, before(hosts_->column_begin(0, column + 1)) - begin};
  }
  /// The offset in scratch of the part of the j-th host after this rank's host. The end if j is the number of hosts.
  std::size_t from_here(int column, int j) const noexcept {
    const int host = host_ + j;
    const Range all = of_column(column);
    const auto begin = [&](int h) { return before(hosts_->column_begin(h, column)) - all.offset; };
    const std::size_t at = host <= hosts_->count() ? begin(host) : begin(host - hosts_->count()) + all.count;
    return all.offset + at - begin(host_);
  }
  template <typename Each>
  void group(int column, int from, int until, std::size_t at, Each each) const {
    const std::size_t begin = hosts_->column_begin(from, column), end = hosts_->column_begin(until, column);
    const std::span<const int> ranks =
        hosts_->whole_column(column).subspan(begin - hosts_->column_begin(0, column), end - begin);
    each_progression(
        ranks.size(), table_ == nullptr, [&](std::size_t i) { return ranks[i]; },
        [&](std::size_t i, std::size_t n, std::ptrdiff_t stride) {
          const std::size_t skipped = before(begin + i) - before(begin);
          each(scratch({at + skipped, before(begin + i + n) - before(begin + i)}), ranks[i], stride);
        });
  }

  const Hosts* hosts_;
  Blocks block_;
  std::size_t count_;
  const BlockTable* table_;
  int host_, index_;
};

}  // namespace tutti::pieces
