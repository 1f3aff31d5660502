// Hosts: see topology.hpp.
#include <algorithm>
#include <atomic>
#include <memory>
#include <numeric>
#include <unordered_map>
#include <utility>

#include "tutti/topology.hpp"

namespace tutti {
namespace {

std::atomic<std::uint64_t> ranks_visited{0};

void visit(std::size_t ranks) noexcept { ranks_visited.fetch_add(ranks, std::memory_order_relaxed); }

/// Writes the number of each rank's host to `host`, numbered in order of first appearance. Returns the number of hosts.
int renumber(std::span<const int> given, std::vector<int>& host) {
  if (given.empty()) return host.empty() ? 0 : 1;
  std::unordered_map<int, int> numbers;
  int before = -1, number = -1;
  for (std::size_t rank = 0; rank < host.size(); ++rank) {
    if (number < 0 || given[rank] != before) {
      before = given[rank];
      number = numbers.try_emplace(before, static_cast<int>(numbers.size())).first->second;
    }
    host[rank] = number;
  }
  return static_cast<int>(numbers.size());
}

}  // namespace

Hosts::Hosts(std::span<const int> host, int size, std::span<const std::vector<int>> above)
    : host_(static_cast<std::size_t>(size)) {
  visit(static_cast<std::size_t>(size));
  const auto hosts = static_cast<std::size_t>(renumber(host, host_));
  std::vector<int> sizes(hosts);
  for (const int one : host_) ++sizes[static_cast<std::size_t>(one)];
  begin_.resize(hosts + 1);
  std::partial_sum(sizes.begin(), sizes.end(), begin_.begin() + 1);
  by_host_.resize(host_.size());
  std::vector<int> next = begin_;  // index in by_host_ for the next rank of each host
  for (int rank = 0; rank < size; ++rank)
    by_host_[static_cast<std::size_t>(next[static_cast<std::size_t>(host_of(rank))]++)] = rank;
  if (hosts == 0) return;
  const auto [least, most] = std::ranges::minmax(sizes);
  in_blocks_ = std::ranges::is_sorted(host_);
  smallest_ = least;
  largest_ = most;
  sort_by_column();
  group_hosts(above);
}

void Hosts::group_hosts(std::span<const std::vector<int>> above) {
  for (; !above.empty() && above_ == nullptr; above = above.subspan(1)) {
    std::vector<std::vector<int>> groups;  // for each level: the group of each host
    for (const std::vector<int>& of_ranks : above) {
      std::vector<int>& of_hosts = groups.emplace_back();
      for (int one = 0; one < count(); ++one) of_hosts.push_back(of_ranks[static_cast<std::size_t>((*this)[one][0])]);
    }
    const auto further = std::span<const std::vector<int>>(groups).subspan(1);
    auto racks = std::make_shared<const Hosts>(groups.front(), count(), further);
    if (racks->count() > 1) above_ = std::move(racks);
  }
  if (above_ == nullptr) return;
  place_.resize(static_cast<std::size_t>(count()));
  for (int i = 0; i < above_->count(); ++i)
    for (const int one : (*above_)[above_->in_order(i)]) {
      place_[static_cast<std::size_t>(one)] = static_cast<int>(order_.size());
      order_.push_back(one);
    }
}

void Hosts::sort_by_column() {
  by_column_.reserve(by_host_.size());
  const bool differ = !is_cartesian();
  if (differ) column_begin_.reserve(static_cast<std::size_t>(columns()) * static_cast<std::size_t>(count()) + 1);
  for (int column = 0; column < columns(); ++column)
    for (int host = 0; host < count(); ++host) {
      if (differ) column_begin_.push_back(static_cast<int>(by_column_.size()));
      for (int i = column; i < size_of(host); i += columns())
        by_column_.push_back((*this)[host][static_cast<std::size_t>(i)]);
    }
  if (differ) column_begin_.push_back(static_cast<int>(by_column_.size()));
}

std::vector<int> Hosts::across(int index) const {
  visit(static_cast<std::size_t>(count()));
  std::vector<int> ranks;
  for (int host = 0; host < count(); ++host)
    if (index < size_of(host)) ranks.push_back((*this)[host][static_cast<std::size_t>(index)]);
  return ranks;
}

std::size_t Hosts::bytes() const noexcept {
  std::size_t numbers = 0;
  for (const auto* list : {&by_host_, &begin_, &host_, &by_column_, &column_begin_, &order_, &place_})
    numbers += list->capacity();
  return sizeof(*this) + numbers * sizeof(int) + (above_ ? above_->bytes() : 0);
}

std::uint64_t Hosts::visited() noexcept { return ranks_visited.load(std::memory_order_relaxed); }

}  // namespace tutti
