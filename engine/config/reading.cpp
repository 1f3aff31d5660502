// Reads configurations from files and arguments.
#include "engine/config.hpp"

#include <algorithm>
#include <bit>
#include <charconv>
#include <cmath>
#include <filesystem>
#include <map>
#include <optional>
#include <vector>

#include "engine/config/documents.hpp"
#include "engine/config/tables.hpp"
#include "tutti/settings.hpp"

namespace tutti::engine {
namespace {

std::string in_quotes(std::string_view text) { return "'" + std::string(text) + "'"; }

bool one_of(std::string_view value, std::string_view choices) {
  for (std::size_t begin = 0; begin <= choices.size();) {
    const std::size_t end = std::min(choices.find('|', begin), choices.size());
    if (choices.substr(begin, end - begin) == value) return true;
    begin = end + 1;
  }
  return false;
}

void assign(std::string& into, const ConfigInfo& info, std::string_view value) {
  const std::string spelled = info.spelling ? info.spelling(value) : std::string(value);
  if (!info.allowed.empty() && !one_of(spelled, info.allowed)) {
    std::string choices(info.allowed);
    for (std::size_t at = 0; (at = choices.find('|', at)) != choices.npos; at += 4) choices.replace(at, 1, " or ");
    refuse(std::string(info.key) + "=" + std::string(value) + ": expected " + choices);
  }
  into = spelled;
}

void assign(bool& into, const ConfigInfo& info, std::string_view value) {
  if (value != "true" && value != "false" && value != "on" && value != "off")
    refuse(std::string(info.key) + "=" + std::string(value) + ": expected true or false");
  into = value == "true" || value == "on";
}

/// nullopt for text that is not a finite number.
std::optional<double> number_of(std::string_view text) {
  double number = 0;
  const auto [rest, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  const bool whole = error == std::errc() && rest == text.data() + text.size() && std::isfinite(number);
  return whole ? std::optional(number) : std::nullopt;
}

/// Reads a time as seconds: "90m", "1.5h", "5400", "01:30:00" or, with days, "2:01:30:00"; nullopt for other text.
std::optional<double> seconds_of(std::string_view text) {
  constexpr double lengths[] = {1, 60, 3600, 86400};
  if (text.find(':') == text.npos) {
    const std::size_t unit = text.empty() ? text.npos : std::string_view("smhd").find(text.back());
    if (unit != text.npos) text.remove_suffix(1);
    const std::optional<double> number = number_of(text);
    return number ? std::optional(*number * (unit == text.npos ? 1 : lengths[unit])) : std::nullopt;
  }
  double seconds = 0;
  for (const double length : lengths) {
    const std::size_t before = text.rfind(':');
    const std::optional<double> part = number_of(text.substr(before == text.npos ? 0 : before + 1));
    if (!part || *part < 0) return std::nullopt;
    seconds += *part * length;
    if (before == text.npos) return seconds;
    text = text.substr(0, before);
  }
  return std::nullopt;
}

void assign(double& into, const ConfigInfo& info, std::string_view value) {
  const bool is_time = info.unit == "seconds";
  const std::optional<double> number = is_time ? seconds_of(value) : number_of(value);
  if (!number || *number < info.least)
    refuse(std::string(info.key) + "=" + std::string(value) + ": expected " +
           (is_time ? "seconds, or a time as in 90m, 8h or 01:30:00"
                    : "a number from " + std::to_string(static_cast<int>(info.least)) + " up"));
  into = *number;
}

void assign(std::int64_t& into, const ConfigInfo& info, std::string_view value) {
  std::int64_t number = 0;
  const char* const end = value.data() + value.size();
  auto [rest, error] = std::from_chars(value.data(), end, number);
  constexpr std::string_view units = "KMG";
  if (error == std::errc() && rest + 1 == end && info.unit == "bytes")
    if (const auto unit = units.find(*rest); unit != units.npos) {
      number <<= 10 * (unit + 1);
      ++rest;
    }
  if (error != std::errc() || rest != end || number < static_cast<std::int64_t>(info.least) || number > (1LL << 48))
    refuse(std::string(info.key) + "=" + std::string(value) + ": expected a whole number from " +
           std::to_string(static_cast<int>(info.least)) + " up");
  into = number;
}

/// The meaning of a key: a row of the table, or an option of a section's choice.
struct Meaning {
  const ConfigInfo* info = nullptr;
  const ConfigChoice* choice = nullptr;
  std::string key;     ///< the full key
  std::string option;  ///< the option's key
};

bool same_key(std::string_view one, std::string_view other) { return plain_key(one) == plain_key(other); }

/// The option that `key` names, if an entry that its section can select has that option.
Meaning option_meaning(std::string_view key) {
  for (const OptionAlias& each : option_aliases())
    if (same_key(each.alias, key)) key = each.key;
  const std::size_t dot = key.find('.');
  if (dot == key.npos) return {};
  for (const ConfigChoice& choice : config_choices())
    if (choice.section == key.substr(0, dot))
      for (const ChoiceInfo& one : choice.table())
        for (const OptionInfo& option : one.options)
          if (same_key(option.key, key.substr(dot + 1)))
            return {nullptr, &choice, std::string(choice.section) + "." + std::string(option.key),
                    std::string(option.key)};
  return {};
}

}  // namespace

std::vector<std::string> config_names() {
  std::vector<std::string> names;
  for (const ConfigInfo& info : config_table()) {
    names.emplace_back(info.key);
    for (const std::string_view alias : words(info.aliases)) names.emplace_back(alias);
  }
  for (const OptionAlias& each : option_aliases()) names.emplace_back(each.alias);
  for (const ConfigChoice& choice : config_choices())
    for (const ChoiceInfo& one : choice.table())
      for (const OptionInfo& option : one.options)
        names.push_back(std::string(choice.section) + "." + std::string(option.key));
  std::ranges::sort(names);
  const auto twice = std::ranges::unique(names);  // choices may have options of the same name
  names.erase(twice.begin(), twice.end());
  return names;
}

namespace {

/// Finds a key by its name or an alias. Throws if there is none.
Meaning lookup(std::string_view key) {
  for (const ConfigInfo& info : config_table()) {
    const auto names_it = [&](std::string_view alias) { return same_key(alias, key); };
    if (names_it(info.key) || std::ranges::any_of(words(info.aliases), names_it))
      return {&info, nullptr, std::string(info.key), {}};
  }
  if (Meaning found = option_meaning(key); found.choice) return found;
  if (const std::string_view advice = advice_for(key); !advice.empty())
    refuse("no config key " + in_quotes(key) + ": here it is " + std::string(advice));
  const std::vector<std::string> names = config_names();
  const std::vector<std::string_view> views(names.begin(), names.end());
  const std::string_view near = nearest(key, views);
  refuse("no config key " + in_quotes(key) +
         (near.empty() ? "; `tutti train --help-config` lists them" : "; did you mean " + in_quotes(near) + "?"));
}

/// Reads the values of a file in order.
class Reader {
 public:
  Reader(Config& config, const std::filesystem::path& file) : config_(config), file_(file) {}

  void read(const YAML::Node& map, const std::string& prefix) {
    for (const auto& entry : map) {
      const std::string here = where(entry.first.Mark());
      if (!entry.first.IsScalar()) refuse(here + "expected `key: value`");
      const std::string key = prefix + entry.first.as<std::string>();
      if (entry.second.IsMap())
        read(entry.second, key + ".");
      else
        set(key, text(entry.second, here + in_quotes(key)), here);
    }
  }

 private:
  std::string where(const YAML::Mark& mark) const {
    return file_.string() + ":" + std::to_string(mark.line + 1) + ": ";
  }
  static std::string text(const YAML::Node& value, const std::string& what) {
    if (value.IsNull()) return "";
    if (value.IsScalar()) return value.as<std::string>();
    std::string joined;
    for (const auto& each : value) {
      if (!each.IsScalar()) refuse(what + " takes a value or a list of values");
      joined += (joined.empty() ? "" : ",") + each.as<std::string>();
    }
    return joined;
  }

  void set(const std::string& key, const std::string& value, const std::string& here) {
    const std::string source = here.substr(0, here.size() - 2);
    try {
      const std::string canonical = lookup(key).key;
      const auto [before, fresh] = seen_.emplace(canonical, source);
      if (!fresh)
        refuse(in_quotes(key) + " is set twice" +
               (key == canonical ? "" : ", as it is another name of " + in_quotes(canonical)) + " (see " +
               before->second + ")");
      config_.set(key, value, source);
    } catch (const Error& error) {
      refuse(here + error.what());
    }
  }

  Config& config_;
  const std::filesystem::path& file_;
  std::map<std::string, std::string, std::less<>> seen_;
};

}  // namespace

void Config::set(std::string_view key, std::string_view value, std::string_view source) {
  const Meaning meaning = lookup(key);
  if (meaning.choice)
    meaning.choice->options(*this).insert_or_assign(meaning.option, std::string(value));
  else
    std::visit([&](auto* into) { assign(*into, *meaning.info, value); }, meaning.info->value(*this));
  sources.insert_or_assign(meaning.key, std::string(source));
  if (meaning.key == "batch.global") {  // the later one of batch.global and batch.per_rank applies
    batch.per_rank = 0;
    sources.erase("batch.per_rank");
  }
}

void Config::set(std::string_view assignment) {
  const std::size_t equals = assignment.find('=');
  if (equals == assignment.npos || equals == 0)
    refuse(in_quotes(assignment) + " is not a setting: expected key=value, as in epochs=5");
  set(assignment.substr(0, equals), assignment.substr(equals + 1), "the command line");
}

void Config::read(const std::filesystem::path& file) {
  Reader reader(*this, file);
  const YAML::Node root = read_yaml(file);
  if (root.IsNull()) return;
  if (!root.IsMap()) refuse(file.string() + ": expected lines of `key: value`");
  reader.read(root, "");
}

void Config::resolve_batch(int ranks) {
  if (batch.per_rank > 0) batch.global = batch.per_rank * ranks;
}

std::size_t grains_of(const Config& config) {
  if (config.deterministic == "off") return 0;
  if (config.batch.grains > 0) return static_cast<std::size_t>(config.batch.grains);
  return std::bit_floor(static_cast<std::size_t>(std::min<std::int64_t>(config.batch.global, 16)));
}

double base_learning_rate(const Config& config) {
  return Options(choose("optimizer", optimizer_table(), config.optimizer.name), config.optimizer.options).number("lr");
}

std::filesystem::path find_config(const std::string& name, std::span<const std::filesystem::path> folders) {
  namespace fs = std::filesystem;
  if (fs::is_regular_file(name)) return name;
  std::set<std::string> known;
  for (const fs::path& folder : folders) {
    std::error_code ignored;
    for (const auto& entry : fs::directory_iterator(folder, ignored))
      if (entry.path().extension() == ".yaml") {
        known.insert(entry.path().stem());
        if (entry.path().stem() == name || entry.path().filename() == name) return entry.path();
      }
  }
  std::string list;
  for (const std::string& each : known) list += (list.empty() ? "" : ", ") + each;
  refuse("no config " + in_quotes(name) + ": expected a YAML file" + (list.empty() ? "" : " or one of " + list));
}

}  // namespace tutti::engine
