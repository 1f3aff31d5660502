// Helpers that the kinds of data share: held-out samples, classes, means.
#include <algorithm>
#include <cmath>
#include <numeric>

#include "engine/data/files.hpp"
#include "engine/data/formats/kinds.hpp"
#include "tutti/status.hpp"

namespace tutti::engine {
namespace {

/// Calls `see` for all samples if they are in memory, else for up to 1000 that are spread over the data set.
template <class See>
void look_at(const Dataset& data, const std::string& field, const See& see) {
  if (const auto* in_memory = dynamic_cast<const ArrayDataset*>(&data)) {
    see(in_memory->columns()[field]);
    return;
  }
  constexpr std::size_t most = 1000;
  const std::size_t count = std::min(most, data.size());
  for (std::size_t i = 0; i < count; ++i) see(data.get(i * data.size() / count)[field]);
}

bool has_classes(const Array& target, const Source& source) {
  return is_integer(target.dtype()) && target.count() == static_cast<std::size_t>(target.shape()[0]) &&
         !source.flag("regression");
}

std::shared_ptr<const Dataset> dataset_of(const Columns& part, const std::string& input, bool classes) {
  const std::int64_t rows = part.input.shape()[0];
  if (part.target.shape()[0] != rows)
    throw Error(Code::invalid, part.where + ": expected " + std::to_string(rows) +
                                   " rows, one for each sample, found " + std::to_string(part.target.shape()[0]));
  if (rows == 0) throw Error(Code::invalid, part.where + ": holds no samples");
  const Array target = classes ? part.target.converted(DType::i64).reshaped({rows}) : part.target.converted(DType::f32);
  return std::make_shared<ArrayDataset>(Fields{{input, part.input}, {classes ? "label" : "target", target}});
}

}  // namespace

DataSplit split_of(const Source& source, std::shared_ptr<const Dataset> train, std::shared_ptr<const Dataset> test,
                   std::span<const std::int64_t> classes) {
  DataSplit split;
  split.train = std::move(train);
  split.test = std::move(test);
  if (split.test) return split;
  if (split.train->size() < 2) source.refuse("a data set of one sample has none to hold out");
  std::vector<SampleId> ids(split.train->size());
  std::iota(ids.begin(), ids.end(), 0U);
  shuffle(std::span(ids), Random::keyed(0x7e57));
  if (!classes.empty()) std::ranges::stable_sort(ids, {}, [&](SampleId id) { return classes[id]; });
  // Every tenth sample in the order of the classes is held out: about a tenth of each class, and exactly a tenth of
  // all.
  std::vector<SampleId> held_out, kept;
  for (std::size_t i = 0; i < ids.size(); ++i) (i % 10 == 9 ? held_out : kept).push_back(ids[i]);
  if (held_out.empty()) {
    held_out.push_back(kept.back());
    kept.pop_back();
  }
  split.test = std::make_shared<Subset>(split.train, std::move(held_out));
  split.train = std::make_shared<Subset>(split.train, std::move(kept));
  return split;
}

void measure(DataSplit& split) {
  const std::string& field = split.inputs.at(0);
  const Array one = split.train->get(0)[field];
  if (one.dtype() != DType::u8) return;
  const std::size_t channels = one.shape().size() == 3 ? static_cast<std::size_t>(one.shape()[0]) : 1;
  const std::size_t each = std::max<std::size_t>(one.count() / channels, 1);
  std::vector<double> total(channels), squares(channels);
  std::size_t counted = 0;
  look_at(*split.train, field, [&](const Array& bytes) {
    const auto values = bytes.as<std::uint8_t>();
    for (std::size_t i = 0; i < values.size(); ++i) {
      const std::size_t channel = i / each % channels;
      total[channel] += values[i];
      squares[channel] += double{1} * values[i] * values[i];
    }
    counted += values.size();
  });
  const double n = static_cast<double>(std::max<std::size_t>(counted / channels, 1));
  split.mean.assign(channels, 0);
  split.deviation.assign(channels, 1);
  for (std::size_t c = 0; c < channels; ++c) {
    const double mean = total[c] / n, deviation = std::sqrt(std::max(squares[c] / n - mean * mean, 0.0));
    split.mean[c] = static_cast<float>(mean / 255);
    if (deviation > 0) split.deviation[c] = static_cast<float>(deviation / 255);
  }
}

DataSplit split_of(const Source& source, const std::vector<Columns>& parts, const std::string& input) {
  const bool classes = has_classes(parts.at(0).target, source);
  std::vector<std::shared_ptr<const Dataset>> datasets;
  std::size_t top = 0;
  for (const Columns& part : parts) {
    if (part.input.shape().empty() || part.target.shape().empty())
      throw Error(Code::invalid, part.where + ": one number: expected a row for each sample");
    datasets.push_back(dataset_of(part, input, classes));
    if (classes) top = std::max(top, count_classes(part.target, part.where, source.number("classes", 0)));
    const Array one = part.input.row(0), first = parts[0].input.row(0);
    if (one.shape() != first.shape() || one.dtype() != first.dtype())
      throw Error(Code::invalid, part.where + ": a held-out sample is " + one.describe() + ", a training sample " +
                                     first.describe() + "; expected one shape");
  }
  const Array labels = classes ? parts[0].target.converted(DType::i64) : Array();
  DataSplit split = split_of(source, datasets[0], parts.size() > 1 ? datasets[1] : nullptr,
                             classes ? labels.as<std::int64_t>() : std::span<const std::int64_t>());
  split.inputs = {input};
  split.target = classes ? "label" : "target";
  split.classes = classes ? source.number("classes", top) : 0;
  measure(split);
  return split;
}

std::string summary(const DataSplit& split, std::string_view samples) {
  return std::to_string(split.train->size()) + " training and " + std::to_string(split.test->size()) + " held-out " +
         std::string(samples) + (split.classes > 0 ? " in " + std::to_string(split.classes) + " classes" : "");
}

std::size_t count_classes(const Array& labels, const std::string& where, std::size_t limit) {
  if (!is_integer(labels.dtype()))
    throw Error(Code::invalid, where + ": expected integers as classes, found " + labels.describe());
  const Array all = labels.converted(DType::i64);
  constexpr std::size_t most_classes = std::size_t{1} << 31;
  const std::size_t most = limit > 0 ? limit : most_classes;
  std::int64_t top = -1;
  std::size_t row = 0;
  for (const std::int64_t label : all.as<std::int64_t>()) {
    if (label < 0 || static_cast<std::size_t>(label) >= most)
      throw Error(Code::invalid, where + ": the label of sample " + std::to_string(row) + " is " +
                                     std::to_string(label) + ": expected " +
                                     (limit > 0 || label > 0 ? "0 to " + std::to_string(most - 1) : "0 or more"));
    top = std::max(top, label);
    ++row;
  }
  return static_cast<std::size_t>(top + 1);
}

PartFolders part_folders(const std::filesystem::path& folder) {
  if (!std::filesystem::is_directory(folder)) refuse(folder, "no such data folder");
  for (const char* test : {"test", "val"})
    if (std::filesystem::is_directory(folder / "train") && std::filesystem::is_directory(folder / test))
      return {folder / "train", folder / test};
  return {folder, {}};
}

}  // namespace tutti::engine
