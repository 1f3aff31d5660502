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

/// Built from the host of each rank (Topology::host): ranks with equal numbers are on the same host, and an empty list
/// means one host. Hosts are renumbered 0 .. count()-1 in the order of their lowest ranks. The ranks of a host are in
/// ascending order and need not be contiguous. Made once for a group of ranks, in time and memory (12 bytes a
/// rank and 4 to 8 a host) proportional to their number; after that nothing but across() visits more ranks than it is
/// asked for.
///
/// Hosts may be grouped in turn: by racks, those by pods, and so on. Such a level is a table like this one, whose ranks
/// are the hosts of this one and whose hosts are the racks, so what is written for ranks on hosts serves for hosts in
/// racks as well.
class Hosts {
 public:
  /// `above[i][rank]`: the rank's group of the i-th level above hosts, of which the next one's groups consist; numbers
  /// as for hosts. Where the ranks of a host differ, the lowest one counts. Levels that have one group are left out.
  Hosts(std::span<const int> host, int size, std::span<const std::vector<int>> above = {});

  /// The racks of the hosts; null: there is one, or nobody has named any. Valid as long as a copy of this table exists.
  const Hosts* above() const noexcept { return above_.get(); }
  bool share_a_rack(int host, int other) const noexcept {
    return above_ == nullptr || above_->host_of(host) == above_->host_of(other);
  }
  /// The hosts in an order in which those of a rack follow one another, and the racks of a pod; and the place of a host
  /// in it. That of their numbers where there are no racks.
  int in_order(int place) const noexcept { return order_.empty() ? place : order_[static_cast<std::size_t>(place)]; }
  int place_of(int host) const noexcept { return place_.empty() ? host : place_[static_cast<std::size_t>(host)]; }

  int count() const noexcept { return static_cast<int>(begin_.size()) - 1; }
  std::span<const int> operator[](int host) const noexcept {
    return {by_host_.data() + before(host), static_cast<std::size_t>(size_of(host))};
  }
  int size_of(int host) const noexcept { return before(host + 1) - before(host); }
  /// The number of ranks on the hosts before this one.
  int before(int host) const noexcept { return begin_[static_cast<std::size_t>(host)]; }
  std::span<const int> host() const noexcept { return host_; }  ///< by rank, as renumbered
  int host_of(int rank) const noexcept { return host_[static_cast<std::size_t>(rank)]; }
  /// The rank's index among the ranks of its host (its local rank); a binary search among them.
  int index_of(int rank) const noexcept {
    const std::span<const int> ranks = (*this)[host_of(rank)];
    return static_cast<int>(std::ranges::lower_bound(ranks, rank) - ranks.begin());
  }

  int smallest() const noexcept { return smallest_; }  ///< number of ranks of the smallest host
  int largest() const noexcept { return largest_; }
  bool is_cartesian() const noexcept { return smallest_ == largest_; }
  /// True if the ranks of every host follow one another.
  bool in_blocks() const noexcept { return in_blocks_; }

  /// The ranks with this local index, on the hosts that have one, ordered by host.
  std::vector<int> across(int index) const;

  /// A column has, on each host, the ranks whose local index modulo smallest() is `column`. So every column has at
  /// least one rank on every host, and the first of them is the column's carrier there. If all hosts have the same
  /// number of ranks, a column has exactly one rank per host.
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
  /// The place of the first rank of column(host, column) among the ranks of all columns: those of column 0 come first,
  /// ordered by host.
  std::size_t column_begin(int host, int column) const noexcept {
    const std::size_t place =
        static_cast<std::size_t>(column) * static_cast<std::size_t>(count()) + static_cast<std::size_t>(host);
    return column_begin_.empty() ? place : static_cast<std::size_t>(column_begin_[place]);
  }

  std::size_t bytes() const noexcept;  ///< of the table

  /// The ranks that all tables of the process have visited so far, while they were made and in across(): what tests of
  /// growth count.
  static std::uint64_t visited() noexcept;

 private:
  void sort_by_column();
  void group_hosts(std::span<const std::vector<int>> above);

  std::vector<int> by_host_, begin_;           // ranks by host, and where each host's begin
  std::vector<int> host_;                      // by rank
  std::vector<int> by_column_, column_begin_;  // ranks by column and host; the latter if hosts differ
  std::vector<int> order_, place_;             // of hosts; if above_
  std::shared_ptr<const Hosts> above_;
  int smallest_ = 0, largest_ = 0;
  bool in_blocks_ = true;
};

/// The location of one rank.
struct Place {
  std::string host = {};        ///< equal for ranks on the same host: boot id and network namespace, or TUTTI_HOST_ID
  std::string host_name = {};   ///< for messages
  int numa_node = -1;           ///< the NUMA node of its cores; -1: several or unknown
  std::string gpu_domain = {};  ///< equal for ranks that see the same GPUs; empty: none
  std::string rack = {};        ///< of its host, outermost first: rack7, pod1/rack7 (Settings::rack); empty: unknown
};

/// The places of a communicator's ranks, by rank; equal on all ranks. A value type: copies share the places of the
/// job.
class Topology {
 public:
  Topology() : Topology(std::vector<Place>{}) {}
  explicit Topology(const std::vector<Place>& places);
  /// `of[rank]` is the index of the rank's place in `different`: for many ranks in the same few places.
  Topology(const std::vector<Place>& different, std::span<const std::uint32_t> of);

  /// The topology of some of these ranks: members[i] becomes rank i.
  Topology of(std::span<const int> members) const;

  int size() const noexcept { return static_cast<int>(hosts_->host().size()); }
  /// Throws std::out_of_range if there is no such rank.
  Place operator[](int rank) const;

  /// The ranks grouped by host; ranks of a host need not be contiguous. Where every host has named its rack, the hosts
  /// are grouped by rack, and those by pod, as many levels as all of them have named.
  const Hosts& hosts() const noexcept { return *hosts_; }
  /// The same, for those who keep it longer than this object.
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
