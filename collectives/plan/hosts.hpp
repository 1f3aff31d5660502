// Hosts: the ranks of a group by the host that they are on. No I/O.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

namespace tutti {

/// Made from the host of each rank (Shape::host, Topology::host): equal numbers are one host, and an empty list
/// means that there is only one. Hosts are numbered anew, 0 .. count()-1, in the order of their first ranks, whatever
/// the numbers were and however the ranks alternate; the ranks of a host are in ascending order.
class Hosts {
 public:
  Hosts(std::span<const int> host, int size);

  int count() const noexcept { return static_cast<int>(members_.size()); }
  std::span<const int> operator[](int host) const noexcept { return members_[static_cast<std::size_t>(host)]; }
  int size_of(int host) const noexcept { return static_cast<int>((*this)[host].size()); }
  std::span<const int> host() const noexcept { return host_; }  ///< by rank, as numbered here
  int host_of(int rank) const noexcept { return host_[static_cast<std::size_t>(rank)]; }
  /// The rank's place among those of its host: its local rank.
  int index_of(int rank) const noexcept { return index_[static_cast<std::size_t>(rank)]; }

  int smallest() const noexcept;  ///< ranks of the host that has the fewest
  int largest() const noexcept;
  bool is_cartesian() const noexcept { return smallest() == largest(); }

  /// The ranks with this local index, of the hosts that have one, in the order of the hosts.
  std::vector<int> across(int index) const;

  /// A column holds ranks of all hosts: on each host, those whose local index is `column` modulo the size of the
  /// smallest host. So every column has at least one rank on every host, the first of which is its carrier there;
  /// where hosts are equal a column has just that one.
  int columns() const noexcept { return smallest(); }
  std::vector<int> column(int host, int column) const;

 private:
  std::vector<std::vector<int>> members_;  // by host
  std::vector<int> host_, index_;          // by rank
};

}  // namespace tutti
