// Geometry: see geometry.hpp.
#include "collectives/plan/geometry.hpp"

#include <map>
#include <mutex>

#include "tutti/topology.hpp"

namespace tutti {

void BlockTable::assign(std::span<const std::size_t> counts, const Hosts* hosts) {
  offsets_.clear();
  by_column_.clear();
  largest_ = largest_column_ = largest_part_ = 0;
  if (counts.empty()) return;
  offsets_.reserve(counts.size() + 1);
  offsets_.push_back(0);
  for (const std::size_t count : counts) {
    offsets_.push_back(offsets_.back() + count);
    largest_ = std::max(largest_, count);
  }
  if (hosts == nullptr) return;
  by_column_.reserve(counts.size() + 1);
  by_column_.push_back(0);
  for (int column = 0; column < hosts->columns(); ++column) {
    const std::size_t column_begin = by_column_.back();
    for (int host = 0; host < hosts->count(); ++host) {
      const std::size_t begin = by_column_.back();
      for (const int rank : hosts->column(host, column))
        by_column_.push_back(by_column_.back() + counts[static_cast<std::size_t>(rank)]);
      largest_part_ = std::max(largest_part_, by_column_.back() - begin);
    }
    largest_column_ = std::max(largest_column_, by_column_.back() - column_begin);
  }
}

Blocks Blocks::rotated(int first) const noexcept {
  Blocks turned = *this;
  turned.first_ = first;
  return turned;
}

std::size_t Blocks::turned(int i) const noexcept {
  const std::size_t skipped = stored(first_);
  return i <= parts_ - first_ ? stored(first_ + i) - skipped : stored(parts_) - skipped + stored(first_ + i - parts_);
}

int BinomialTree::reach() const noexcept {
  const int v = label();
  return v == 0 ? 1 << log2_ceil(size) : v & -v;
}

int BinomialTree::children() const noexcept {
  const int others = span() - 1;  // in the subtree; the first child's distance is the largest power of two <= others
  return others == 0 ? 0 : log2_floor(others) + 1;
}

BinomialTree::Child BinomialTree::child(int i) const noexcept {
  const int bit = 1 << (children() - 1 - i), v = label() + bit;
  return {v, rank_of(v), std::min(bit, size - v)};
}

const Hosts& hosts_of(const Shape& shape) {
  if (shape.hosts != nullptr) return *shape.hosts;
  struct Kept {
    std::mutex mutex;
    std::map<int, Hosts> by_size;
  };
  static Kept& kept = *new Kept;  // never destroyed, because schedules refer to it
  const std::lock_guard lock(kept.mutex);
  return kept.by_size.try_emplace(shape.size, std::span<const int>(), shape.size).first->second;
}

}  // namespace tutti
