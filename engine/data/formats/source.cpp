#include "engine/data/formats/source.hpp"

#include <algorithm>
#include <charconv>

#include "engine/data/formats/kinds.hpp"
#include "tutti/status.hpp"

namespace tutti::engine {
namespace {

constexpr SourceKind kinds[] = {
    {"idx", "idx:DIR or DIR", "a folder with MNIST's four IDX files", "", 1, 1, open_idx},
    {"cifar10", "cifar10:DIR", "CIFAR-10, binary version", "", 1, 1, open_cifar10},
    {"cifar100", "cifar100:DIR", "CIFAR-100, binary version", "", 1, 1, open_cifar100},
    {"hdf5", "hdf5:TRAIN.txt[,TEST.txt]", "HDF5 files: one, or a list with a path on each line",
     "features labels classes open preload memory cache", 1, 2, open_hdf5},
    {"images", "images:DIR[,size=HxW]", "JPEG and PNG files in a folder for each class", "size channels", 1, 1,
     open_images},
    {"csv", "csv:TRAIN.csv[,TEST.csv]", "numbers separated by commas, a sample on each line",
     "label classes regression", 1, 2, open_csv},
    {"npy", "npy:X.npy,Y.npy[,X_TEST.npy,Y_TEST.npy]", "arrays as NumPy saves them, a row for each sample",
     "classes regression", 2, 4, open_npy},
    {"text", "text:DIR[,context=128]",
     "files of text (*.txt, or all), a token for each byte: the next one is to be told", "context", 1, 1, open_text},
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
  Source source{.text = text, .kind = std::string(kind.name)};
  while (!rest.empty()) {
    const std::size_t end = std::min(rest.find(','), rest.size());
    if (end > 0) take_word(source, kind, std::string(rest.substr(0, end)));
    rest.remove_prefix(std::min(end + 1, rest.size()));
  }
  if (source.values.size() < kind.least_values || source.values.size() > kind.most_values)
    source.refuse("that is " + std::to_string(source.values.size()) +
                  (source.values.size() == 1 ? " value" : " values"));
  return source;
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

DataSplit load(const std::string& text, std::size_t random_samples, std::uint64_t seed, const ReadLimits& limits) {
  const std::size_t colon = text.find(':');
  const std::string_view prefix = std::string_view(text).substr(0, std::min(colon, text.size()));
  if (colon != text.npos) {
    if (const SourceKind* kind = kind_of(prefix)) {
      Source source = parse(text, *kind, std::string_view(text).substr(colon + 1));
      source.random_samples = random_samples;
      source.seed = seed;
      source.limits = limits;
      return kind->open(source);
    }
    if (!std::filesystem::exists(text)) {
      std::string list;
      for (const SourceKind& each : kinds) list += (list.empty() ? "" : "; ") + std::string(each.form);
      throw Error(Code::invalid, "data=" + text + ": no kind of data '" + std::string(prefix) + "'; there is " + list);
    }
  }
  return open_idx({.text = text, .kind = "idx", .values = {text}, .limits = limits});
}

}  // namespace tutti::engine
