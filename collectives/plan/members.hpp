// Members: a list of some ranks of a group, for a plan that is made for fewer ranks and played by these.
#pragma once

#include <concepts>
#include <span>

namespace tutti {

class Hosts;

/// Element i is the group's rank that plays rank i of the plan. Stores a pointer to the list or to the hosts, which
/// must outlive this object.
class Members {
 public:
  Members() = default;  ///< without a value: assign another Members before use
  /// The ranks of a list, in the order of the list.
  template <std::convertible_to<std::span<const int>> Ranks>
  Members(const Ranks& ranks) noexcept : Members(std::span<const int>(ranks).data(), nullptr, 0, 0) {}
  /// The rank with local index `index` on each host, ordered by host. Every host must have such a rank.
  static Members across(const Hosts& hosts, int index) noexcept { return {nullptr, &hosts, index, 0}; }
  /// The same ranks in the order of Hosts::in_order(), in which the hosts of a rack follow one another.
  static Members in_order(const Hosts& hosts, int index) noexcept { return {nullptr, &hosts, index, 1}; }
  /// All ranks of a group of `size` ranks: element i is rank (first + i) modulo `size`.
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
  int first_, size_;  // with hosts_: the local index, and 1 for in_order(), 0 for across()
};

}  // namespace tutti
