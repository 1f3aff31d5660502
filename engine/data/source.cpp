#include "engine/data/source.hpp"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <numeric>

#include "engine/data/kinds.hpp"
#include "transports/core/status.hpp"

namespace tutti::engine {
namespace {

constexpr SourceKind kinds[] = {
    {"idx", "idx:DIR or DIR", "a folder with MNIST's four IDX files", "", 1, 1, open_idx},
    {"random", "random:SHAPE, as in random:1x28x28", "random numbers, for measuring throughput",
     "samples classes target", 1, 1, open_random},
};

bool is_key(std::string_view text) {
  return !text.empty() &&
         std::all_of(text.begin(), text.end(), [](char c) { return (c >= 'a' && c <= 'z') || c == '_'; });
}

bool listed(std::string_view key, std::string_view list) {
  for (std::size_t at = list.find(key); at != list.npos; at = list.find(key, at + 1)) {
    const std::size_t end = at + key.size();
    if ((at == 0 || list[at - 1] == ' ') && (end == list.size() || list[end] == ' ')) return true;
  }
  return false;
}

std::string comma_separated(std::string_view list) {
  std::string text;
  for (const char c : list) text += c == ' ' ? std::string(", ") : std::string(1, c);
  return text;
}

const SourceKind* kind_of(std::string_view name) {
  for (const SourceKind& each : kinds)
    if (each.name == name) return &each;
  return nullptr;
}

void take_word(Source& source, const SourceKind& kind, const std::string& word) {
  const std::size_t equals = std::min(word.find('='), word.size());
  const std::string key = word.substr(0, equals);
  if (listed(key, kind.options))
    source.options[key] = equals < word.size() ? word.substr(equals + 1) : "on";
  else if (equals < word.size() && is_key(key))
    source.refuse("no option '" + key + "'" +
                  (kind.options.empty() ? "" : ", there is " + comma_separated(kind.options)));
  else
    source.values.push_back(word);
}

Source parse(const std::string& text, const SourceKind& kind, std::string_view rest) {
  Source source{.text = text, .kind = std::string(kind.name), .values = {}, .options = {}};
  while (!rest.empty()) {
    const std::size_t end = std::min(rest.find(','), rest.size());
    if (end > 0) take_word(source, kind, std::string(rest.substr(0, end)));
    rest.remove_prefix(std::min(end + 1, rest.size()));
  }
  if (source.values.size() < kind.least_values || source.values.size() > kind.most_values)
    source.refuse("that is " + std::to_string(source.values.size()) + " values");
  return source;
}

/// Of samples that are spread over the data set, at most so many.
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

}  // namespace

std::span<const SourceKind> source_kinds() noexcept { return kinds; }

void Source::refuse(const std::string& what) const {
  const SourceKind* found = kind_of(kind);
  throw Error(Code::invalid, "data=" + text + ": " + what + (found ? "; expected " + std::string(found->form) : ""));
}

std::string Source::option(std::string_view key, std::string_view otherwise) const {
  const auto found = options.find(key);
  return found == options.end() ? std::string(otherwise) : found->second;
}

std::size_t Source::number(std::string_view key, std::size_t otherwise) const {
  const std::string value = option(key);
  if (value.empty()) return otherwise;
  std::size_t number = 0;
  const auto [rest, error] = std::from_chars(value.data(), value.data() + value.size(), number);
  if (error != std::errc() || rest != value.data() + value.size() || number == 0)
    refuse(std::string(key) + "=" + value + " is no whole number from 1 up");
  return number;
}

bool Source::flag(std::string_view key) const {
  const std::string value = option(key, "off");
  if (value != "on" && value != "off") refuse(std::string(key) + "=" + value + " is neither on nor off");
  return value == "on";
}

DataSplit load(const std::string& text, std::size_t random_samples, std::uint64_t seed) {
  const std::size_t colon = text.find(':');
  const std::string_view prefix = std::string_view(text).substr(0, std::min(colon, text.size()));
  if (colon != text.npos) {
    if (const SourceKind* kind = kind_of(prefix)) {
      Source source = parse(text, *kind, std::string_view(text).substr(colon + 1));
      source.random_samples = random_samples;
      source.seed = seed;
      return kind->open(source);
    }
    if (!std::filesystem::exists(text)) {
      std::string list;
      for (const SourceKind& each : kinds) list += (list.empty() ? "" : "; ") + std::string(each.form);
      throw Error(Code::invalid, "data=" + text + ": no kind of data '" + std::string(prefix) + "'; there is " + list);
    }
  }
  return open_idx({.text = text, .kind = "idx", .values = {text}, .options = {}});
}

ImageShape DataSplit::image() const {
  const Array found = train->get(0)[inputs.at(0)];
  const ArrayShape& shape = found.shape();
  if (inputs.size() != 1 || shape.size() != 3)
    throw Error(Code::invalid,
                "the network takes images (channels x height x width, as data=random:1x28x28 has), but '" + inputs[0] +
                    "' is " + found.describe() + ": take another network or other data");
  const auto side = [&](std::size_t d) { return static_cast<std::size_t>(shape[d]); };
  return {side(0), side(1), side(2)};
}

std::vector<Transform> DataSplit::preparation() const {
  std::vector<Transform> found;
  const Sample one = train->get(0);
  for (const std::string& input : inputs)
    if (one[input].dtype() == DType::u8)
      found.push_back(&input == &inputs[0] ? normalise(input, mean, deviation) : normalise(input, {0}, {1}));
  found.push_back(classes > 0 ? check_label(target, classes) : convert(target, DType::f32));
  return found;
}

DataSplit split_of(std::shared_ptr<const Dataset> train, std::shared_ptr<const Dataset> test) {
  DataSplit split;
  split.train = std::move(train);
  split.test = std::move(test);
  if (split.test) return split;
  if (split.train->size() < 2) throw Error(Code::invalid, "one sample cannot be split into training and held-out ones");
  std::vector<std::uint32_t> ids(split.train->size());
  std::iota(ids.begin(), ids.end(), 0U);
  shuffle(std::span(ids), Random::keyed(0x7e57));
  const auto held_out = ids.begin() + static_cast<std::ptrdiff_t>(std::max<std::size_t>(ids.size() / 10, 1));
  split.test = std::make_shared<Subset>(split.train, std::vector(ids.begin(), held_out));
  split.train = std::make_shared<Subset>(split.train, std::vector(held_out, ids.end()));
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

std::string summary(const DataSplit& split, std::string_view samples) {
  return std::to_string(split.train->size()) + " training and " + std::to_string(split.test->size()) + " held-out " +
         std::string(samples) + (split.classes > 0 ? " in " + std::to_string(split.classes) + " classes" : "");
}

std::size_t count_classes(const Array& labels, const std::string& where, std::size_t limit) {
  if (!is_integer(labels.dtype()))
    throw Error(Code::invalid, where + ": expected integers as classes, found " + labels.describe());
  const Array all = labels.converted(DType::i64);
  std::int64_t top = -1;
  std::size_t row = 0;
  for (const std::int64_t label : all.as<std::int64_t>()) {
    if (label < 0 || (limit > 0 && label >= static_cast<std::int64_t>(limit)))
      throw Error(Code::invalid, where + ": the label of sample " + std::to_string(row) + " is " +
                                     std::to_string(label) + ": expected " +
                                     (limit > 0 ? "0 to " + std::to_string(limit - 1) : "0 or more"));
    top = std::max(top, label);
    ++row;
  }
  return static_cast<std::size_t>(top + 1);
}

}  // namespace tutti::engine
