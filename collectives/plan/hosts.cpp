// Hosts: see topology.hpp.
#include <algorithm>
#include <atomic>
#include <numeric>
#include <unordered_map>

#include "tutti/topology.hpp"

namespace tutti {
namespace {

std::atomic<std::uint64_t> ranks_visited{0};

void visit(std::size_t ranks) noexcept { ranks_visited.fetch_add(ranks, std::memory_order_relaxed); }

/// The host of each rank, numbered in order of appearance; returns their number.
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

Hosts::Hosts(std::span<const int> host, int size)
    : host_(static_cast<std::size_t>(size)), index_(static_cast<std::size_t>(size)) {
  visit(static_cast<std::size_t>(size));
  const auto hosts = static_cast<std::size_t>(renumber(host, host_));
  std::vector<int> sizes(hosts);
  for (std::size_t rank = 0; rank < host_.size(); ++rank) index_[rank] = sizes[static_cast<std::size_t>(host_[rank])]++;
  begin_.resize(hosts + 1);
  std::partial_sum(sizes.begin(), sizes.end(), begin_.begin() + 1);
  by_host_.resize(host_.size());
  for (int rank = 0; rank < size; ++rank)
    by_host_[static_cast<std::size_t>(before(host_of(rank)) + index_of(rank))] = rank;
  if (hosts == 0) return;
  const auto [least, most] = std::ranges::minmax(sizes);
  smallest_ = least;
  largest_ = most;
  sort_by_column();
}

void Hosts::sort_by_column() {
  by_column_.reserve(by_host_.size());
  const bool differ = !is_cartesian();
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
  for (const auto* list : {&by_host_, &begin_, &host_, &index_, &by_column_, &column_begin_})
    numbers += list->capacity();
  return sizeof(*this) + numbers * sizeof(int);
}

std::uint64_t Hosts::visited() noexcept { return ranks_visited.load(std::memory_order_relaxed); }

}  // namespace tutti
