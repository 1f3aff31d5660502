#include "engine/data/dataset.hpp"

#include <algorithm>
#include <string>

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
    : whole_(std::move(whole)), ids_(std::move(ids)) {
  std::sort(ids_.begin(), ids_.end());
}

std::vector<std::size_t> Subset::files() const {
  std::vector<std::size_t> found;
  std::size_t end = 0;
  auto at = ids_.begin();
  for (const std::size_t count : whole_->files()) {
    end += count;
    const auto next = std::find_if(at, ids_.end(), [&](SampleId id) { return id >= end; });
    found.push_back(static_cast<std::size_t>(next - at));
    at = next;
  }
  return found;
}

Blocks Subset::blocks() const {
  Blocks found = whole_->blocks();
  std::size_t end = 0;
  auto at = ids_.begin();
  for (std::vector<std::size_t>& file : found.files) {
    for (std::size_t& length : file) {
      end += length;
      const auto next = std::lower_bound(at, ids_.end(), end);
      length = static_cast<std::size_t>(next - at);
      at = next;
    }
    std::erase(file, 0);
  }
  std::erase_if(found.files, [](const auto& file) { return file.empty(); });
  return found;
}

void Subset::expect(const Coming& coming) const {
  whole_->expect([&](const std::function<void(SampleId)>& use) { coming([&](SampleId id) { use(ids_.at(id)); }); });
}

}  // namespace tutti::engine
