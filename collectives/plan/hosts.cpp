// Hosts: see hosts.hpp.
#include "tutti/topology.hpp"

#include <algorithm>
#include <map>

namespace tutti {

Hosts::Hosts(std::span<const int> host, int size) {
  std::map<int, int> numbers;  // new number by host, in order of appearance
  for (int rank = 0; rank < size; ++rank) {
    const int given = host.empty() ? 0 : host[static_cast<std::size_t>(rank)];
    const int number = numbers.try_emplace(given, static_cast<int>(numbers.size())).first->second;
    members_.resize(numbers.size());
    auto& members = members_[static_cast<std::size_t>(number)];
    host_.push_back(number);
    index_.push_back(static_cast<int>(members.size()));
    members.push_back(rank);
  }
}

int Hosts::smallest() const noexcept {
  return static_cast<int>(std::ranges::min_element(members_, {}, &std::vector<int>::size)->size());
}

int Hosts::largest() const noexcept {
  return static_cast<int>(std::ranges::max_element(members_, {}, &std::vector<int>::size)->size());
}

std::vector<int> Hosts::across(int index) const {
  std::vector<int> ranks;
  for (const auto& members : members_)
    if (index < static_cast<int>(members.size())) ranks.push_back(members[static_cast<std::size_t>(index)]);
  return ranks;
}

std::vector<int> Hosts::column(int host, int column) const {
  std::vector<int> ranks;
  for (int i = column; i < size_of(host); i += columns()) ranks.push_back((*this)[host][static_cast<std::size_t>(i)]);
  return ranks;
}

}  // namespace tutti
