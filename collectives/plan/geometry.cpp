// Geometry: see geometry.hpp.
#include "collectives/plan/geometry.hpp"

#include <algorithm>

namespace tutti {

namespace {
/// The offset of chunk i of `count` elements in `parts` chunks, 0 <= i <= parts.
std::size_t chunk_begin(std::size_t count, int parts, int i) noexcept {
  const auto n = static_cast<std::size_t>(parts), k = static_cast<std::size_t>(i);
  return k * (count / n) + std::min(k, count % n);
}
}  // namespace

Range Chunks::operator[](int i) const noexcept { return run(modulo(i, parts_), 1); }

Range Chunks::run(int first, int n) const noexcept {
  const std::size_t begin = chunk_begin(count_, parts_, first);
  return {begin, chunk_begin(count_, parts_, first + n) - begin};
}

Blocks::Blocks(std::size_t count, int parts, std::span<const std::size_t> counts) : count_(count), parts_(parts) {
  if (counts.empty()) return;
  offsets_.push_back(0);
  for (const std::size_t n : counts) offsets_.push_back(offsets_.back() + n);
}

Blocks::Blocks(const Chunks& chunks) : count_(0), parts_(chunks.parts()) {
  for (int i = 0; i < parts_; ++i) offsets_.push_back(chunks[i].offset);
  offsets_.push_back(chunks.run(0, parts_).count);
}

Range Blocks::operator[](int i) const noexcept { return run(modulo(i, parts_), 1); }

Range Blocks::run(int first, int n) const noexcept {
  const auto a = static_cast<std::size_t>(first), b = static_cast<std::size_t>(first + n);
  if (offsets_.empty()) return {a * count_, (b - a) * count_};
  return {offsets_[a], offsets_[b] - offsets_[a]};
}

Blocks Blocks::rotated(int first) const {
  if (offsets_.empty()) return *this;
  std::vector<std::size_t> counts;
  for (int i = 0; i < parts_; ++i) counts.push_back((*this)[first + i].count);
  return {count_, parts_, counts};
}

std::size_t Blocks::largest() const noexcept {
  std::size_t most = 0;
  for (int i = 0; i < parts_; ++i) most = std::max(most, (*this)[i].count);
  return most;
}

std::size_t Blocks::total() const noexcept { return run(0, parts_).count; }

int BinomialTree::reach() const noexcept {
  const int v = label();
  return v == 0 ? 1 << log2_ceil(size) : v & -v;
}

int BinomialTree::span() const noexcept { return std::min(reach(), size - label()); }

std::vector<BinomialTree::Child> BinomialTree::children() const {
  std::vector<Child> all;
  const int v = label();
  for (int bit = reach() / 2; bit > 0; bit /= 2)
    if (v + bit < size) all.push_back({v + bit, rank_of(v + bit), std::min(bit, size - v - bit)});
  return all;
}

}  // namespace tutti
