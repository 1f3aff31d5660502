#include "engine/config/options.hpp"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <optional>

#include "tutti/settings.hpp"
#include "tutti/status.hpp"

namespace tutti::engine {
namespace {

using Kind = OptionInfo::Kind;

template <class Number>
std::optional<Number> parsed(std::string_view text) {
  Number number{};
  const auto [rest, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc() || rest != text.data() + text.size()) return std::nullopt;
  return number;
}

/// The parts of a text between commas; empty for an empty text.
std::vector<std::string_view> parts_of(std::string_view text) {
  std::vector<std::string_view> parts;
  while (!text.empty()) {
    const std::size_t end = std::min(text.find(','), text.size());
    parts.push_back(text.substr(0, end));
    if (end + 1 == text.size()) parts.emplace_back();  // after a trailing comma
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return parts;
}

/// The expected form, if `value` is not valid for the option; else empty.
std::string complaint(const OptionInfo& option, std::string_view value) {
  switch (option.kind) {
    case Kind::number: {
      const auto number = parsed<double>(value);
      return number && option.allows(*number) ? "" : "a number " + option.range();
    }
    case Kind::whole: {
      const auto number = parsed<std::int64_t>(value);
      return number && option.allows(static_cast<double>(*number)) ? "" : "a whole number " + option.range();
    }
    case Kind::flag: return value == "true" || value == "false" ? "" : "true or false";
    case Kind::sizes: {
      const auto good = [](std::string_view part) {
        const auto size = parsed<std::int64_t>(part);
        return size && *size >= 1 && *size <= (1 << 20);
      };
      return std::ranges::all_of(parts_of(value), good)
                 ? ""
                 : "whole numbers from 1 up with commas, as in " + std::string(option.key) + "=256,128";
    }
    case Kind::text: return {};
  }
  return {};
}

std::string in_quotes(std::string_view text) { return "'" + std::string(text) + "'"; }

}  // namespace

std::string OptionInfo::range() const {
  const std::string from = "from " + std::to_string(static_cast<int>(least)) + " up";
  return std::isfinite(below) ? from + ", below " + std::to_string(static_cast<int>(below)) : from;
}

std::vector<std::string_view> words(std::string_view text) {
  std::vector<std::string_view> found;
  while (!text.empty()) {
    const std::size_t end = std::min(text.find(' '), text.size());
    if (end > 0) found.push_back(text.substr(0, end));
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return found;
}

std::string nearest_of(std::string_view word, std::span<const std::string_view> known) {
  if (const std::string_view near = nearest(word, known); !near.empty())
    return "; did you mean " + in_quotes(near) + "?";
  std::string list;
  for (const std::string_view each : known) list += (list.empty() ? "" : ", ") + std::string(each);
  return list.empty() ? "; there are none" : "; there are " + list;
}

const ChoiceInfo& choose(std::string_view noun, std::span<const ChoiceInfo> table, std::string_view name) {
  std::vector<std::string_view> names;
  for (const ChoiceInfo& choice : table) {
    if (choice.name == name) return choice;
    names.push_back(choice.name);
  }
  refuse("no " + std::string(noun) + " " + in_quotes(name) + nearest_of(name, names));
}

Options::Given Options::parse(std::string_view text) {
  Given given;
  while (!text.empty()) {
    const std::size_t end = std::min(text.find(' '), text.size());
    const std::string_view word = text.substr(0, end);
    text.remove_prefix(std::min(end + 1, text.size()));
    if (word.empty()) continue;
    const std::size_t equals = word.find('=');
    if (equals == word.npos || equals == 0)
      refuse(in_quotes(word) + " is not an option: expected key=value, with spaces between");
    if (!given.emplace(word.substr(0, equals), word.substr(equals + 1)).second)
      refuse("option " + in_quotes(word.substr(0, equals)) + " is given twice: leave one out");
  }
  return given;
}

Options::Options(const ChoiceInfo& choice, const Given& given) : choice_(choice) {
  std::vector<std::string_view> keys;
  for (const OptionInfo& option : choice.options) {
    values_.emplace(option.key, option.value);
    keys.push_back(option.key);
  }
  for (const auto& [key, value] : given) {
    const auto option = std::ranges::find(choice.options, std::string_view(key), &OptionInfo::key);
    if (option == choice.options.end())
      refuse(std::string(choice.name) + " has no option " + in_quotes(key) + nearest_of(key, keys));
    if (const std::string wanted = complaint(*option, value); !wanted.empty())
      refuse(std::string(choice.name) + ": " + key + "=" + value + ": expected " + wanted);
    values_[key] = value;
  }
}

const std::string& Options::value(std::string_view key, Kind kind) const {
  const auto option = std::ranges::find(choice_.options, key, &OptionInfo::key);
  if (option == choice_.options.end() || option->kind != kind)
    throw Error(Code::internal, std::string(choice_.name) + ": its table has no " + in_quotes(key) + " of this kind");
  return values_.find(key)->second;
}

double Options::number(std::string_view key) const { return *parsed<double>(value(key, Kind::number)); }

std::int64_t Options::whole(std::string_view key) const { return *parsed<std::int64_t>(value(key, Kind::whole)); }

bool Options::flag(std::string_view key) const { return value(key, Kind::flag) == "true"; }

std::vector<std::int64_t> Options::sizes(std::string_view key) const {
  std::vector<std::int64_t> sizes;
  for (const std::string_view part : parts_of(value(key, Kind::sizes))) sizes.push_back(*parsed<std::int64_t>(part));
  return sizes;
}

const std::string& Options::text(std::string_view key) const { return value(key, Kind::text); }

}  // namespace tutti::engine
