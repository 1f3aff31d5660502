// The settings of the whole library; parses and sets these and the settings of providers.
#include "tutti/settings.hpp"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cstdint>
#include <cstdlib>
#include <mutex>
#include <optional>
#include <set>
#include <type_traits>
#include <utility>
#include <vector>

#include "transports/core/chaos.hpp"
#include "transports/core/link_shape.hpp"
#include "tutti/log.hpp"

namespace tutti {
namespace {

constexpr SettingInfo rows[] = {
    {"log",
     "what is written to stderr: off, error, warn, info or debug",
     &Settings::log,
     {.choices = "off, error, warn, info, debug"}},
    {"transport", "providers to try between two ranks, best first", &Settings::transport, {.agreed = true}},
    {"backend", "backends to prefer, best first: planned, mpi, gloo", &Settings::backend, {.agreed = true}},
    {"select",
     "rules 'kind: LOW..HIGH = [backend/]algorithm, ...; ...' that go before all others",
     &Settings::select,
     {.agreed = true}},
    {"tuning", "file of measured rules; auto: the one that `tutti tune` made for this machine, off: none",
     &Settings::tuning},
    {"explain",
     "on: rank 0 says which backend and algorithm each kind of call takes, and why; or off",
     &Settings::explain,
     {.choices = "off, on"}},
    {"module_path", "folders with further modules, separated by ':'", &Settings::module_path},
    {"accelerator", "the module by which devices are used; none: without devices", &Settings::accelerator},
    {"device_backends",
     "backends to try for device memory, best first; what none of them does goes through the host",
     &Settings::device_backends,
     {.agreed = true}},
    {"home_cores",
     "on: where ranks fill the cores, who waits goes back to one of its own now and then; off: never",
     &Settings::home_cores,
     {.choices = "off, on"}},
    {"verify",
     "off, light (every message is checked) or full (each call is checked first)",
     &Settings::verify,
     {.choices = "off, light, full", .agreed = true}},
    {"recorder",
     "on: the last calls of this rank are recorded in memory, for `tutti doctor`; a folder: in files there, which "
     "stay; or off",
     &Settings::recorder},
    {"record",
     "what is recorded: calls, or messages: also each message of them, so that fewer calls are kept",
     &Settings::record,
     {.choices = "calls, messages"}},
    {"timeout", "seconds from the launch of a call to its deadline", &Settings::timeout, {.least = 0.001, .most = 1e9}},
    {"connect_timeout",
     "seconds to find and connect the other ranks",
     &Settings::connect_timeout,
     {.least = 0.001, .most = 1e9}},
    {"iface", "interfaces or addresses that tcp may use, comma-separated; behind a ^ those that it may not",
     &Settings::iface},
    {"net",
     "rate and one-way latency that each rank's link is made to have, for experiments: 50mbit,20ms; empty: its own",
     &Settings::net,
     {.agreed = true}},
    {"chaos",
     "faults on purpose, for tests: seed=7,delay=8,lazy=30,kill=2@17 (docs/book/32-chaos.md); empty: none",
     &Settings::chaos,
     {.agreed = true}},
    {"host_id", "overrides the identity of the host; ranks with the same text share memory", &Settings::host_id},
    {"rack",
     "the rack that this host is in, with what is around it in front: rack7, pod1/rack7; empty: what SLURM says",
     &Settings::rack},
    {"lane_bytes",
     "a buffer is cut into lanes of about this many bytes, or fewer between hosts",
     &Settings::lane_bytes,
     {.least = 64, .most = 1 << 30, .agreed = true}},
    {"max_lanes",
     "at most this many lanes are in flight, or as many bytes in shorter ones",
     &Settings::max_lanes,
     {.least = 1, .most = 256, .agreed = true}},
    {"stage_bytes",
     "device memory goes through the host in slices of at most this many bytes",
     &Settings::stage_bytes,
     {.least = 64, .most = 1 << 30}},
    {"remote_start", "the command by which `tutti run --hosts` starts something on {host}", &Settings::remote_start},
    {"store", "where ranks meet: tcp://HOST:PORT or file:///DIR", &Settings::store},
    {"secret", "the job's token; ranks without it are refused", &Settings::secret},
    {"job", "the job's name", &Settings::job},
};

// TUTTI_* variables that are not settings. The launcher sets them and the bootstrap reads them, except for TUTTI_ROOT,
// which is for builds of the Python package.
constexpr std::array<std::string_view, 9> other_names = {"TUTTI_RANK",       "TUTTI_SIZE",    "TUTTI_LOCAL_RANK",
                                                         "TUTTI_LOCAL_SIZE", "TUTTI_STARTER", "TUTTI_RECORDER_FD",
                                                         "TUTTI_ROOT",       "TUTTI_JOIN",    "TUTTI_ELASTIC"};

constexpr std::string_view prefix = "TUTTI_";

std::string environment_name(std::string_view key) {
  std::string text(prefix);
  for (const char c : key) text += c >= 'a' && c <= 'z' ? static_cast<char>(c - 'a' + 'A') : c;
  return text;
}

const SettingInfo* find(std::string_view key) {
  const auto table = setting_table();
  const auto found = std::ranges::find(table, key, &SettingInfo::key);
  return found == table.end() ? nullptr : &*found;
}

// Names a bad value and its source: "TUTTI_TIMEOUT='x'", or "timeout='x' (from SOURCE)".
std::string blame(std::string_view key, std::string_view value, std::string_view source) {
  if (source == "environment") return environment_name(key) + "='" + std::string(value) + "'";
  std::string text = std::string(key) + "='" + std::string(value) + "'";
  if (!source.empty()) text += " (from " + std::string(source) + ")";
  return text;
}

[[noreturn]] void refuse(const std::string& what, const std::string& why) {
  throw Error(Code::invalid, what + ": " + why + (why.ends_with('?') ? "" : "."));
}

std::string with_unit(std::int64_t bytes) {
  constexpr std::string_view units = "KMG";
  std::string unit;
  for (const char u : units) {
    if (bytes == 0 || bytes % 1024 != 0) break;
    bytes /= 1024;
    unit = u;
  }
  return std::to_string(bytes) + unit;
}

bool is_bytes(std::string_view key) { return key.ends_with("_bytes"); }

std::string shown(std::string_view key, std::int64_t value) {
  return is_bytes(key) ? with_unit(value) : std::to_string(value);
}

std::string shown(std::string_view, double value) {
  char text[400];  // the longest double in plain digits
  const auto [end, error] = std::to_chars(text, text + sizeof(text), value, std::chars_format::fixed);
  return error == std::errc() ? std::string(text, end) : std::string("?");
}

template <class T>
void check_range(const SettingInfo& info, T value, const std::string& what) {
  const double least = info.rules.least, most = info.rules.most, number = static_cast<double>(value);
  if (number >= least && number <= most) return;
  const std::string lowest = shown(info.key, static_cast<T>(least)), highest = shown(info.key, static_cast<T>(most));
  refuse(what, "give a value from " + lowest + " to " + highest);
}

bool is_word_of(std::string_view words, std::string_view value) {
  while (!words.empty()) {
    const std::size_t end = std::min(words.find(", "), words.size());
    if (words.substr(0, end) == value) return true;
    words.remove_prefix(std::min(end + 2, words.size()));
  }
  return false;
}

template <class T>
std::optional<T> parse_number(std::string_view text) {
  T value{};
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return value;
}

std::string parse_text(const SettingInfo& info, std::string_view value, const std::string& what) {
  const std::string_view words = info.rules.choices;
  if (!words.empty() && !is_word_of(words, value)) refuse(what, "give one of " + std::string(words));
  try {
    if (info.key == "net" && !value.empty()) parse_link_shape(value);
    if (info.key == "chaos" && !value.empty()) parse_chaos(value);
  } catch (const Error& error) {
    refuse(what, error.what());
  }
  return std::string(value);
}

double parse_real(const SettingInfo& info, std::string_view value, const std::string& what) {
  const auto number = parse_number<double>(value);
  if (!number) refuse(what, "give a number of seconds, such as 30 or 0.5");
  check_range(info, *number, what);
  return *number;
}

std::int64_t parse_whole(const SettingInfo& info, std::string_view value, const std::string& what) {
  std::optional<std::int64_t> number;
  if (is_bytes(info.key)) {
    try {
      number = parse_bytes(value);
    } catch (const Error&) {
      refuse(what, "give a number of bytes, such as 65536, 64K, 1M or 2G");
    }
  } else {
    number = parse_number<std::int64_t>(value);
  }
  if (!number) refuse(what, "give a whole number");
  check_range(info, *number, what);
  return *number;
}

// The value of a setting: a field of Settings, or for a provider's setting what was set, else its standard value.
Settings::Value value_of(const Settings& settings, const SettingInfo& info) {
  return std::visit(
      [&]<class T>(T place) -> Settings::Value {
        if constexpr (std::is_member_object_pointer_v<T>) {
          return settings.*place;
        } else {
          const auto found = settings.of_providers.find(info.key);
          if (found != settings.of_providers.end()) return found->second;
          if constexpr (std::is_same_v<T, std::string_view>)
            return std::string(place);
          else
            return place;
        }
      },
      info.value);
}

void assign(Settings& settings, const SettingInfo& info, std::string_view text, const std::string& what) {
  Settings::Value value = value_of(settings, info);  // has the setting's type
  if (std::holds_alternative<std::string>(value))
    value = parse_text(info, text, what);
  else if (std::holds_alternative<double>(value))
    value = parse_real(info, text, what);
  else
    value = parse_whole(info, text, what);
  std::visit(
      [&]<class T>(T place) {
        if constexpr (std::is_member_object_pointer_v<T>)
          settings.*place = std::get<std::remove_reference_t<decltype(settings.*place)>>(std::move(value));
        else
          settings.of_providers.insert_or_assign(std::string(info.key), std::move(value));
      },
      info.value);
}

bool known(std::string_view variable) {
  if (variable.starts_with("TUTTI_TEST_")) return true;
  if (std::find(other_names.begin(), other_names.end(), variable) != other_names.end()) return true;
  return std::ranges::any_of(setting_table(), [&](const auto& row) { return environment_name(row.key) == variable; });
}

}  // namespace

std::span<const SettingInfo> setting_table() noexcept {
  static const auto& table = *new std::vector<SettingInfo>([] {  // never destroyed, as threads may outlive main()
    std::vector<SettingInfo> all(std::begin(rows), std::end(rows));
    for (const auto& of_one : provider_settings()) all.insert(all.end(), of_one.begin(), of_one.end());
    return all;
  }());
  return table;
}

Settings Settings::from_environment() {
  Settings settings;
  for (char** entry = environ; entry && *entry; ++entry) {
    const std::string_view line = *entry;
    const std::size_t equals = line.find('=');
    if (equals == std::string_view::npos || !line.starts_with(prefix)) continue;
    const std::string_view variable = line.substr(0, equals);
    if (!known(variable)) settings.unknown.emplace_back(variable);
  }
  for (const SettingInfo& row : setting_table()) {
    const char* value = std::getenv(environment_name(row.key).c_str());
    if (value && *value) settings.set(row.key, value, "environment");  // an empty value counts as unset
  }
  return settings;
}

void warn_of_unknown(const Settings& settings) {
  static std::mutex mutex;
  static std::set<std::string> warned;
  if (settings.unknown.empty() || parse_log_level(settings.log).value_or(LogLevel::warn) < LogLevel::warn) return;
  std::vector<std::string> names(other_names.begin(), other_names.end());
  for (const SettingInfo& row : setting_table()) names.push_back(environment_name(row.key));
  const std::vector<std::string_view> views(names.begin(), names.end());

  const std::lock_guard lock(mutex);
  for (const std::string& variable : settings.unknown) {
    if (!warned.insert(variable).second) continue;
    const std::string_view near = nearest(variable, views);
    std::string text = "the environment variable " + variable + " means nothing to this version";
    text += near.empty() ? "; 'tutti info -c' lists what does" : "; did you mean " + std::string(near) + "?";
    log(LogLevel::warn, text);
  }
}

void Settings::set(std::string_view key, std::string_view value, std::string_view source) {
  const SettingInfo* info = find(key);
  if (!info) {
    std::vector<std::string_view> keys;
    for (const SettingInfo& row : setting_table()) keys.push_back(row.key);
    const std::string_view near = nearest(key, keys);
    refuse("there is no setting '" + std::string(key) + "'",
           near.empty() ? std::string("'tutti info -c' lists them") : "did you mean '" + std::string(near) + "'?");
  }
  assign(*this, *info, value, blame(key, value, source));
  sources.insert_or_assign(std::string(key), std::string(source));
}

std::string Settings::of(const ProviderSetting<std::string_view>& setting) const {
  return std::get<std::string>(value_of(*this, setting));
}
double Settings::of(const ProviderSetting<double>& setting) const { return std::get<double>(value_of(*this, setting)); }
std::int64_t Settings::of(const ProviderSetting<std::int64_t>& setting) const {
  return std::get<std::int64_t>(value_of(*this, setting));
}

std::string value_text(const Settings& settings, const SettingInfo& info) {
  const Settings::Value value = value_of(settings, info);
  if (const auto* text = std::get_if<std::string>(&value)) return *text;
  if (const auto* real = std::get_if<double>(&value)) return shown(info.key, *real);
  return shown(info.key, std::get<std::int64_t>(value));
}

std::int64_t parse_bytes(std::string_view text) {
  std::string_view digits = text;
  int shift = 0;
  if (!digits.empty()) {
    constexpr std::string_view units = "KMGkmg";
    const std::size_t unit = units.find(digits.back());
    if (unit != std::string_view::npos) {
      shift = 10 * (static_cast<int>(unit % 3) + 1);
      digits.remove_suffix(1);
    }
  }
  const auto number = parse_number<std::int64_t>(digits);
  if (!number || *number < 0 || *number > (INT64_MAX >> shift)) {
    refuse("'" + std::string(text) + "' is not a number of bytes", "write it like 65536, 64K, 1M or 2G");
  }
  return *number << shift;
}

std::string_view nearest(std::string_view word, std::span<const std::string_view> candidates) noexcept {
  // Edit distance in which insertion, deletion, replacement and swap of neighbours cost one each.
  constexpr std::size_t longest = 64;
  using Row = std::array<std::size_t, longest + 1>;
  const auto distance = [&](std::string_view other) {
    Row before{}, last{}, row{};
    for (std::size_t j = 0; j <= other.size(); ++j) last[j] = j;
    for (std::size_t i = 1; i <= word.size(); ++i) {
      row[0] = i;
      for (std::size_t j = 1; j <= other.size(); ++j) {
        const bool same = word[i - 1] == other[j - 1];
        row[j] = std::min({last[j] + 1, row[j - 1] + 1, last[j - 1] + (same ? 0u : 1u)});
        if (i > 1 && j > 1 && word[i - 1] == other[j - 2] && word[i - 2] == other[j - 1]) {
          row[j] = std::min(row[j], before[j - 2] + 1);
        }
      }
      before = last;
      last = row;
    }
    return last[other.size()];
  };

  std::string_view best;
  if (word.size() > longest) return best;
  std::size_t least = std::max<std::size_t>(2, word.size() / 3) + 1;
  for (const std::string_view candidate : candidates) {
    if (candidate.size() > longest) continue;
    const std::size_t d = distance(candidate);
    if (d < least) {
      least = d;
      best = candidate;
    }
  }
  return best;
}

}  // namespace tutti
