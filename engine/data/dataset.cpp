#include "engine/data/dataset.hpp"

#include <algorithm>
#include <stdexcept>
#include <string>
#include <utility>

#include "tutti/status.hpp"

namespace tutti::engine {

ArrayDataset::ArrayDataset(Fields columns) : columns_(std::move(columns)) {
  const Fields::Field* first = nullptr;
  for (const Fields::Field& each : columns_) {
    const auto& [name, array] = each;
    if (array.shape().empty())
      throw Error(Code::invalid, "'" + name + "' is one number: expected a row for each sample");
    if (first && array.shape()[0] != first->second.shape()[0])
      throw Error(Code::invalid, "'" + name + "' has " + std::to_string(array.shape()[0]) + " rows, and '" +
                                     first->first + "' " + std::to_string(first->second.shape()[0]) +
                                     ": expected a row for each sample");
    if (!first) first = &each;
  }
  if (first) size_ = static_cast<std::size_t>(first->second.shape()[0]);
}

Sample ArrayDataset::get(std::size_t i) const {
  Sample sample;
  for (const auto& [name, array] : columns_) sample[name] = array.row(i);
  return sample;
}

Subset::Subset(std::shared_ptr<const Dataset> whole, std::vector<SampleId> ids)
    : whole_(std::move(whole)), size_(ids.size()) {
  std::sort(ids.begin(), ids.end());
  if (ids.empty() || ids.back() <= UINT32_MAX)
    short_ids_.assign(ids.begin(), ids.end());
  else
    long_ids_ = std::move(ids);
}

Subset::Subset(std::shared_ptr<const Dataset> whole, SampleId first, SampleId stride)
    : whole_(std::move(whole)), first_(first), stride_(stride) {
  if (first < whole_->size()) size_ = (whole_->size() - first - 1) / stride + 1;
}

SampleId Subset::id(std::size_t i) const {
  if (i >= size_) throw std::out_of_range("a subset has no sample " + std::to_string(i));
  if (stride_ > 0) return first_ + i * stride_;
  return long_ids_.empty() ? short_ids_[i] : long_ids_[i];
}

/// The number of this subset's samples whose id is below `end`.
std::size_t Subset::number_below(SampleId end) const {
  if (stride_ > 0) return end <= first_ ? 0 : std::min<std::size_t>(size_, (end - first_ - 1) / stride_ + 1);
  const auto below = [end](const auto& ids) {
    return static_cast<std::size_t>(std::ranges::lower_bound(ids, end) - ids.begin());
  };
  return long_ids_.empty() ? below(short_ids_) : below(long_ids_);
}

std::vector<std::size_t> Subset::files() const {
  std::vector<std::size_t> found;
  std::size_t end = 0, before = 0;
  for (const std::size_t count : whole_->files()) {
    const std::size_t below = number_below(end += count);
    found.push_back(below - std::exchange(before, below));
  }
  return found;
}

Blocks Subset::blocks() const {
  Blocks found = whole_->blocks();
  std::size_t end = 0, before = 0;
  for (std::vector<std::size_t>& file : found.files) {
    for (std::size_t& length : file) {
      const std::size_t below = number_below(end += length);
      length = below - std::exchange(before, below);
    }
    std::erase(file, 0);
  }
  std::erase_if(found.files, [](const auto& file) { return file.empty(); });
  return found;
}

void Subset::expect(const Coming& coming) const {
  whole_->expect([&](const std::function<void(SampleId)>& use) { coming([&](SampleId place) { use(id(place)); }); });
}

}  // namespace tutti::engine
