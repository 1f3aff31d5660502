// Members: the ranks among which a plan for fewer ranks is played.
#pragma once

#include <concepts>
#include <span>

namespace tutti {

class Hosts;

/// Which rank of the group is rank i of a smaller one. Refers to its list or hosts, which must outlive it.
class Members {
 public:
  Members() = default;  ///< to be assigned to
  /// Those of a list, in its order.
  template <std::convertible_to<std::span<const int>> Ranks>
  Members(const Ranks& ranks) noexcept : Members(std::span<const int>(ranks).data(), nullptr, 0, 0) {}
  /// One of each host, ordered by host: that with local index `index`, which every host must have.
  static Members across(const Hosts& hosts, int index) noexcept { return {nullptr, &hosts, index, 0}; }
  /// The same, ordered so that the hosts of a rack follow one another (Hosts::in_order).
  static Members in_order(const Hosts& hosts, int index) noexcept { return {nullptr, &hosts, index, 1}; }
  /// All `size` ranks, counted from `first`.
  static Members from(int first, int size) noexcept { return {nullptr, nullptr, first, size}; }

  int operator[](int i) const noexcept {
    if (ranks_ != nullptr) return ranks_[i];
    return hosts_ != nullptr ? across(i) : counted(i);
  }

 private:
  int across(int i) const noexcept;
  int counted(int i) const noexcept { return i < size_ - first_ ? i + first_ : i + first_ - size_; }

  Members(const int* ranks, const Hosts* hosts, int first, int size) noexcept
      : ranks_(ranks), hosts_(hosts), first_(first), size_(size) {}

  const int* ranks_;
  const Hosts* hosts_;
  int first_, size_;  // with hosts_: the local index, and whether in order
};

}  // namespace tutti
