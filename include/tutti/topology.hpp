// Topology: the hosts, racks, NUMA nodes and GPUs of a communicator's ranks.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

namespace tutti {

/// The ranks of a communicator, grouped by host. Built from a host number per rank: ranks with equal numbers are on the
/// same host, and an empty list means one host. Hosts are renumbered 0 .. count()-1 in the order of their lowest ranks.
/// The ranks of a host are in ascending order and need not be contiguous. Construction takes time and memory (12 bytes
/// a rank and 4 to 8 a host) proportional to the number of ranks. Afterwards only across() takes time that grows with
/// the number of hosts.
///
/// Hosts may be grouped as well: into racks, racks into pods, and so on. Each such level is a table of this class,
/// whose ranks are the hosts of this table and whose hosts are the racks. Code for ranks on hosts thus also works for
/// hosts in racks.
class Hosts {
 public:
  /// `above[i][rank]` is the number of the rank's group at the i-th level above hosts (0: racks, 1: pods). If the ranks
  /// of a host differ, the lowest rank's number is used. Levels with a single group are left out.
  Hosts(std::span<const int> host, int size, std::span<const std::vector<int>> above = {});

  /// The hosts grouped by rack; null if there is one rack, or none is named. Valid while a copy of this table exists.
  const Hosts* above() const noexcept { return above_.get(); }
  bool share_a_rack(int host, int other) const noexcept {
    return above_ == nullptr || above_->host_of(host) == above_->host_of(other);
  }
  /// in_order(i) is the i-th host in an order that keeps the hosts of a rack together, and the racks of a pod.
  /// place_of() is the inverse. Without racks this is the order of the hosts' numbers.
  int in_order(int place) const noexcept { return order_.empty() ? place : order_[static_cast<std::size_t>(place)]; }
  int place_of(int host) const noexcept { return place_.empty() ? host : place_[static_cast<std::size_t>(host)]; }

  int count() const noexcept { return static_cast<int>(begin_.size()) - 1; }
  std::span<const int> operator[](int host) const noexcept {
    return {by_host_.data() + before(host), static_cast<std::size_t>(size_of(host))};
  }
  int size_of(int host) const noexcept { return before(host + 1) - before(host); }
  /// The number of ranks on the hosts before this one.
  int before(int host) const noexcept { return begin_[static_cast<std::size_t>(host)]; }
  std::span<const int> host() const noexcept { return host_; }  ///< the renumbered host of each rank
  int host_of(int rank) const noexcept { return host_[static_cast<std::size_t>(rank)]; }
  /// The rank's index among the ranks of its host (its local rank). A binary search in the ranks of the host.
  int index_of(int rank) const noexcept {
    const std::span<const int> ranks = (*this)[host_of(rank)];
    return static_cast<int>(std::ranges::lower_bound(ranks, rank) - ranks.begin());
  }

  int smallest() const noexcept { return smallest_; }  ///< number of ranks of the smallest host
  int largest() const noexcept { return largest_; }
  bool is_cartesian() const noexcept { return smallest_ == largest_; }
  /// True if the ranks of every host follow one another.
  bool in_blocks() const noexcept { return in_blocks_; }

  /// The ranks with local index `index`, one on each host that has more than `index` ranks, ordered by host.
  std::vector<int> across(int index) const;

  /// On each host, a column has the ranks whose local index modulo smallest() is `column`. Every column has at least
  /// one rank on every host; the first is the column's carrier on that host. If all hosts have the same number of
  /// ranks, a column has exactly one rank per host.
  int columns() const noexcept { return smallest_; }
  std::span<const int> column(int host, int column) const noexcept {
    const std::size_t from = column_begin(host, column);
    return {by_column_.data() + from, column_begin(host + 1, column) - from};
  }
  /// The ranks of a column on all hosts, ordered by host.
  std::span<const int> whole_column(int column) const noexcept {
    const std::size_t from = column_begin(0, column);
    return {by_column_.data() + from, column_begin(0, column + 1) - from};
  }
  /// The position of the first rank of column(host, column) in the list of all ranks, sorted by column, then by host.
  std::size_t column_begin(int host, int column) const noexcept {
    const std::size_t place =
        static_cast<std::size_t>(column) * static_cast<std::size_t>(count()) + static_cast<std::size_t>(host);
    return column_begin_.empty() ? place : static_cast<std::size_t>(column_begin_[place]);
  }

  std::size_t bytes() const noexcept;  ///< memory of the table and of the levels above

  /// Number of ranks that all tables of this process have visited so far, in constructors and in across(). For tests of
  /// how costs grow with the number of ranks.
  static std::uint64_t visited() noexcept;

 private:
  void sort_by_column();
  void group_hosts(std::span<const std::vector<int>> above);

  std::vector<int> by_host_, begin_;           // the ranks sorted by host, and the index of each host's first rank
  std::vector<int> host_;                      // by rank
  std::vector<int> by_column_, column_begin_;  // by column, then host; column_begin_: empty if hosts are equally large
  std::vector<int> order_, place_;             // in_order() and place_of(); empty without above_
  std::shared_ptr<const Hosts> above_;
  int smallest_ = 0, largest_ = 0;
  bool in_blocks_ = true;
};

/// The location of one rank.
struct Place {
  std::string host = {};        ///< equal for ranks on the same host: boot id and network namespace, or TUTTI_HOST_ID
  std::string host_name = {};   ///< for messages
  int numa_node = -1;           ///< the NUMA node of the rank's cores; -1: several or unknown
  std::string gpu_domain = {};  ///< equal for ranks that see the same GPUs; empty: no GPUs
  std::string rack = {};        ///< of the host, outermost level first: pod1/rack7 (Settings::rack); empty: unknown
};

/// The places of a communicator's ranks, by rank; equal on all ranks. Copies are cheap: they share the job's list of
/// places.
class Topology {
 public:
  Topology() : Topology(std::vector<Place>{}) {}
  explicit Topology(const std::vector<Place>& places);
  /// `of[rank]` is the index of the rank's place in `different`. Saves memory if many ranks have equal places.
  Topology(const std::vector<Place>& different, std::span<const std::uint32_t> of);

  /// The topology of some of these ranks: members[i] becomes rank i.
  Topology of(std::span<const int> members) const;

  int size() const noexcept { return static_cast<int>(hosts_->host().size()); }
  /// Throws std::out_of_range if there is no such rank.
  Place operator[](int rank) const;

  /// The ranks grouped by host; ranks of a host need not be contiguous. If every host names its rack, the hosts are
  /// grouped by rack, the racks by pod, and so on, up to the number of levels that all hosts name.
  const Hosts& hosts() const noexcept { return *hosts_; }
  /// hosts() with shared ownership, for callers that keep it longer than this object.
  std::shared_ptr<const Hosts> shared_hosts() const noexcept { return hosts_; }

  /// The number of each rank's host in hosts(), by rank. Valid as long as a copy of this object exists.
  std::span<const int> host() const noexcept { return hosts_->host(); }

 private:
  struct Places;
  Topology(std::shared_ptr<const Places> places, std::shared_ptr<const std::vector<int>> members);
  int job_rank(int rank) const { return members_ ? members_->at(static_cast<std::size_t>(rank)) : rank; }

  std::shared_ptr<const Places> places_;
  std::shared_ptr<const std::vector<int>> members_;  // ranks of the job; null: all, in order
  std::shared_ptr<const Hosts> hosts_;
};

}  // namespace tutti
