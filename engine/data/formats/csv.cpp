// data=csv: one sample per line, numbers separated by commas; one column is the label. If the first line is not all
// numbers, it contains the names of the columns.
#include <algorithm>
#include <charconv>
#include <string_view>

#include "engine/data/files.hpp"
#include "engine/data/formats/kinds.hpp"

namespace tutti::engine {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t most_columns = 1 << 20;
constexpr std::string_view byte_order_mark = "\xef\xbb\xbf";  // in UTF-8; spreadsheets write it

std::string_view trimmed(std::string_view text) {
  const auto outer = [](char c) { return c == ' ' || c == '\t' || c == '\r' || c == '"'; };
  while (!text.empty() && outer(text.front())) text.remove_prefix(1);
  while (!text.empty() && outer(text.back())) text.remove_suffix(1);
  return text;
}

template <class Number>
bool parse(std::string_view text, Number& number) {
  if (text.size() > 1 && text[0] == '+' && text[1] != '-') text.remove_prefix(1);
  const auto [rest, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  return error == std::errc() && rest == text.data() + text.size();
}

/// Parses one file into columns.
class CsvReader {
 public:
  CsvReader(const fs::path& file, const Source& source) : file_(file), source_(source) {}

  Columns read() {
    const std::vector<std::uint8_t> bytes = read_whole(file_, source_.limits);
    std::string_view rest(reinterpret_cast<const char*>(bytes.data()), bytes.size());
    if (rest.starts_with(byte_order_mark)) rest.remove_prefix(byte_order_mark.size());
    while (!rest.empty()) {
      const std::size_t end = std::min(rest.find('\n'), rest.size());
      ++line_;
      if (!trimmed(rest.substr(0, end)).empty()) take(rest.substr(0, end));
      rest.remove_prefix(std::min(end + 1, rest.size()));
    }
    if (rows_ == 0) refuse(file_, "holds no samples");
    const auto rows = static_cast<std::int64_t>(rows_);
    const auto width = static_cast<std::int64_t>(width_ - 1);
    return {file_.string(), Array(std::move(features_), {rows, width}),
            classes_.size() == rows_ ? Array(std::move(classes_)) : Array(std::move(targets_), {rows, 1})};
  }

 private:
  [[noreturn]] void refuse_line(const std::string& what) const {
    refuse(file_.string() + ":" + std::to_string(line_), what);
  }

  void take(std::string_view line) {
    std::vector<std::string_view> values;
    for (std::size_t begin = 0; begin <= line.size();) {
      const std::size_t end = std::min(line.find(',', begin), line.size());
      values.push_back(trimmed(line.substr(begin, end - begin)));
      begin = end + 1;
      if (values.size() > most_columns) refuse_line("has more than " + std::to_string(most_columns) + " values");
    }
    if (width_ == 0) {
      take_first(values);
      if (named_) return;
    }
    if (values.size() != width_)
      refuse_line("expected " + std::to_string(width_) + " values, found " + std::to_string(values.size()));
    for (std::size_t column = 0; column < width_; ++column) {
      float number = 0;
      if (!parse(values[column], number))
        refuse_line("column " + std::to_string(column + 1) + ": '" + std::string(values[column]) + "' is no number");
      (column == label_ ? targets_ : features_).push_back(number);
    }
    if (std::int64_t label = 0; classes_.size() == rows_ && parse(values[label_], label)) classes_.push_back(label);
    ++rows_;
  }

  /// True if the first line may have the names of columns: no value is a number, or each number is the column's own,
  /// counted from 0 or 1. Any other number means that the line is a sample with a mistake.
  static bool may_be_names(const std::vector<std::string_view>& values) {
    std::size_t from_0 = 0, from_1 = 0, numbers = 0, empty = 0;
    for (std::size_t i = 0; i < values.size(); ++i) {
      double number = 0;
      const std::string_view text = values[i].substr(values[i].starts_with('+') ? 1 : 0);
      const auto [rest, error] = std::from_chars(text.data(), text.data() + text.size(), number);
      empty += text.empty() ? 1 : 0;
      if (text.empty() || rest != text.data() + text.size()) continue;
      if (error != std::errc()) return false;
      ++numbers;
      from_0 += number == static_cast<double>(i) ? 1 : 0;
      from_1 += number == static_cast<double>(i + 1) ? 1 : 0;
    }
    return numbers == 0 || (empty == 0 && (numbers == from_0 || numbers == from_1));
  }

  /// Takes the number of columns from the first line and finds the label's column.
  void take_first(const std::vector<std::string_view>& values) {
    width_ = values.size();
    if (width_ < 2) refuse_line("expected values separated by commas, a label among them");
    const std::string wanted = source_.option("label");
    const auto is_number = [](std::string_view text) {
      float number = 0;
      return parse(text, number);
    };
    const auto name = std::ranges::find_if_not(values, is_number);
    named_ = name != values.end();
    const bool says_so = !wanted.empty() && std::ranges::find(values, wanted) != values.end();
    if (named_ && !says_so && !may_be_names(values))
      refuse_line("column " + std::to_string(name - values.begin() + 1) + ": '" + std::string(*name) +
                  "' is no number, and others are; if this is a header, say label= with the name of a column");
    label_ = width_ - 1;
    if (wanted.empty()) return;
    std::size_t number = 0;
    if (const auto at = std::find(values.begin(), values.end(), wanted); named_ && at != values.end())
      label_ = static_cast<std::size_t>(at - values.begin());
    else if (parse(std::string_view(wanted), number) && number >= 1 && number <= width_)
      label_ = number - 1;
    else
      refuse_line("no column '" + wanted +
                  "' for label=: expected its name in the first line, or its number from 1 to " +
                  std::to_string(width_));
  }

  const fs::path file_;
  const Source& source_;
  std::size_t line_ = 0, rows_ = 0, width_ = 0, label_ = 0;
  bool named_ = false;
  std::vector<float> features_, targets_;
  std::vector<std::int64_t> classes_;  // filled while all labels are integers
};

}  // namespace

DataSplit open_csv(const Source& source) {
  std::vector<Columns> parts;
  for (const std::string& file : source.values) parts.push_back(CsvReader(file, source).read());
  DataSplit split = split_of(source, parts, "features");
  split.description =
      source.text + ": " + summary(split, "samples of " + describe(split.train->get(0)["features"].shape()));
  return split;
}

}  // namespace tutti::engine
