// The table of settings, and how they are parsed and set.
#include "transports/core/settings.hpp"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cstdint>
#include <cstdlib>
#include <mutex>
#include <optional>
#include <set>
#include <vector>

#include "transports/core/link_shape.hpp"
#include "transports/core/log.hpp"

namespace tutti {
namespace {

constexpr SettingInfo table[] = {
    {"log", "what is written to stderr: off, error, warn, info or debug", &Settings::log},
    {"transport", "providers to try between two ranks, best first", &Settings::transport},
    {"backend", "backends to prefer, best first: planned, mpi, gloo", &Settings::backend},
    {"select", "rules 'kind: LOW..HIGH = [backend/]algorithm, ...; ...' that go before all others", &Settings::select},
    {"tuning", "file of measured rules; auto: the one that `tutti tune` made for this machine, off: none",
     &Settings::tuning},
    {"explain", "on: rank 0 says which backend and algorithm each kind of call takes, and why; or off",
     &Settings::explain},
    {"module_path", "folders with further modules, separated by ':'", &Settings::module_path},
    {"accelerator", "the module by which devices are used; none: without devices", &Settings::accelerator},
    {"mpi_library", "file of the MPI library to use where the program has none; empty: the launcher's, or the system's",
     &Settings::mpi_library},
    {"mpi_min_bytes", "under the MPI preload: calls of fewer bytes per rank stay with MPI", &Settings::mpi_min_bytes},
    {"mpi_check", "1: under the MPI preload MPI makes every call too, and a difference ends the job; 0: not",
     &Settings::mpi_check},
    {"device_backends", "backends to try for device memory, best first; what none of them does goes through the host",
     &Settings::device_backends},
    {"nccl_library", "file of the NCCL library to use; empty: the one that the program has, else libnccl.so.2",
     &Settings::nccl_library},
    {"nccl_shared_gpu", "on: NCCL decides itself whether several ranks may share a GPU; off: another backend is taken",
     &Settings::nccl_shared_gpu},
    {"nccl_order", "agreed: calls of several communicators reach NCCL in one order on all ranks; or as issued",
     &Settings::nccl_order},
    {"home_cores", "on: where ranks fill the cores, who waits goes back to one of its own now and then; off: never",
     &Settings::home_cores},
    {"verify", "off, light (every message is checked) or full (each call is checked first)", &Settings::verify},
    {"timeout", "seconds from the launch of a call to its deadline", &Settings::timeout},
    {"connect_timeout", "seconds to find and connect the other ranks", &Settings::connect_timeout},
    {"iface", "interfaces or addresses that tcp may use, comma-separated", &Settings::iface},
    {"tcp_congestion", "congestion control of tcp's sockets, the first that the kernel allows; empty: the kernel's own",
     &Settings::tcp_congestion},
    {"tcp_connections",
     "tcp connections between two ranks for large messages, at most 8; 0: one on a host, 4 between hosts",
     &Settings::tcp_connections},
    {"ib_device", "the RDMA device to use, as 'tutti info' lists them; empty: any", &Settings::ib_device},
    {"ib_port", "the port of RDMA devices to use; 0: any", &Settings::ib_port},
    {"ib_gid_index", "the entry in an RDMA port's table of addresses (GIDs); -1: the best", &Settings::ib_gid_index},
    {"net",
     "rate and one-way latency that each rank's link is made to have, for experiments: 50mbit,20ms; empty: its own",
     &Settings::net},
    {"host_id", "overrides the identity of the host; ranks with the same text share memory", &Settings::host_id},
    {"shm_dir", "folder for the shared segment where memfd is refused", &Settings::shm_dir},
    {"shm_bytes", "upper bound of one job's segment on a host", &Settings::shm_bytes},
    {"lane_bytes", "a buffer is cut into lanes of about this many bytes", &Settings::lane_bytes},
    {"max_lanes", "at most this many lanes are in flight", &Settings::max_lanes},
    {"stage_bytes", "device memory goes through the host in slices of at most this many bytes", &Settings::stage_bytes},
    {"remote_start", "the command by which `tutti run --hosts` starts something on {host}", &Settings::remote_start},
    {"store", "where ranks meet: tcp://HOST:PORT or file:///DIR", &Settings::store},
    {"secret", "the job's token; ranks without it are refused", &Settings::secret},
    {"job", "the job's name", &Settings::job},
};

// TUTTI_* variables that are not settings: the launcher sets them and the bootstrap reads them.
constexpr std::array<std::string_view, 5> launcher_names = {"TUTTI_RANK", "TUTTI_SIZE", "TUTTI_LOCAL_RANK",
                                                            "TUTTI_LOCAL_SIZE", "TUTTI_STARTER"};

constexpr std::string_view prefix = "TUTTI_";

template <class T>
struct Range {
  std::string_view key;
  T least, most;
};
constexpr Range<std::int64_t> integer_ranges[] = {{"shm_bytes", 64 << 10, std::int64_t{1} << 40},
                                                  {"lane_bytes", 64, std::int64_t{1} << 30},
                                                  {"stage_bytes", 64, std::int64_t{1} << 30},
                                                  {"max_lanes", 1, 256},
                                                  {"tcp_connections", 0, 8},
                                                  {"mpi_min_bytes", 0, std::int64_t{1} << 40},
                                                  {"mpi_check", 0, 1},
                                                  {"ib_port", 0, 255},
                                                  {"ib_gid_index", -1, 255}};
constexpr Range<double> real_ranges[] = {{"timeout", 0.001, 1e9}, {"connect_timeout", 0.001, 1e9}};

struct Choice {
  std::string_view key;
  std::string_view words;  // separated by ", "
};
constexpr Choice choices[] = {
    {"log", "off, error, warn, info, debug"}, {"verify", "off, light, full"},   {"explain", "off, on"},
    {"nccl_shared_gpu", "off, on"},           {"nccl_order", "agreed, issued"}, {"home_cores", "off, on"}};

std::string environment_name(std::string_view key) {
  std::string text(prefix);
  for (const char c : key) text += c >= 'a' && c <= 'z' ? static_cast<char>(c - 'a' + 'A') : c;
  return text;
}

const SettingInfo* find(std::string_view key) {
  const auto found = std::find_if(std::begin(table), std::end(table), [&](const auto& row) { return row.key == key; });
  return found == std::end(table) ? nullptr : found;
}

// "TUTTI_TIMEOUT=x" or "timeout=x (flag)": names the source of a bad value.
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

template <class T, std::size_t N>
void check_range(const Range<T> (&ranges)[N], std::string_view key, T value, const std::string& what) {
  for (const auto& [name, least, most] : ranges) {
    if (name == key && !(value >= least && value <= most)) {
      refuse(what, "give a value from " + shown(key, least) + " to " + shown(key, most));
    }
  }
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

void assign(Settings& settings, const SettingInfo& info, std::string_view value, const std::string& what) {
  if (const auto* text = std::get_if<std::string Settings::*>(&info.member)) {
    for (const Choice& choice : choices) {
      if (choice.key == info.key && !is_word_of(choice.words, value)) {
        refuse(what, "give one of " + std::string(choice.words));
      }
    }
    if (info.key == "net" && !value.empty()) {
      try {
        parse_link_shape(value);
      } catch (const Error& error) {
        refuse(what, error.what());
      }
    }
    settings.*(*text) = value;
  } else if (const auto* real = std::get_if<double Settings::*>(&info.member)) {
    const auto number = parse_number<double>(value);
    if (!number) refuse(what, "give a number of seconds, such as 30 or 0.5");
    check_range(real_ranges, info.key, *number, what);
    settings.*(*real) = *number;
  } else {
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
    check_range(integer_ranges, info.key, *number, what);
    settings.*std::get<std::int64_t Settings::*>(info.member) = *number;
  }
}

bool known(std::string_view variable) {
  if (variable.starts_with("TUTTI_TEST_")) return true;
  if (std::find(launcher_names.begin(), launcher_names.end(), variable) != launcher_names.end()) return true;
  return std::any_of(std::begin(table), std::end(table),
                     [&](const auto& row) { return environment_name(row.key) == variable; });
}

}  // namespace

std::span<const SettingInfo> setting_table() noexcept { return table; }

Settings Settings::from_environment() {
  Settings settings;
  for (char** entry = environ; entry && *entry; ++entry) {
    const std::string_view line = *entry;
    const std::size_t equals = line.find('=');
    if (equals == std::string_view::npos || !line.starts_with(prefix)) continue;
    const std::string_view variable = line.substr(0, equals);
    if (!known(variable)) settings.unknown.emplace_back(variable);
  }
  for (const SettingInfo& row : table) {
    const char* value = std::getenv(environment_name(row.key).c_str());
    if (value && *value) settings.set(row.key, value, "environment");  // an empty value counts as unset
  }
  return settings;
}

void warn_of_unknown(const Settings& settings) {
  static std::mutex mutex;
  static std::set<std::string> warned;
  if (settings.unknown.empty() || parse_log_level(settings.log).value_or(LogLevel::warn) < LogLevel::warn) return;
  std::vector<std::string> names(launcher_names.begin(), launcher_names.end());
  for (const SettingInfo& row : table) names.push_back(environment_name(row.key));
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
    for (const SettingInfo& row : table) keys.push_back(row.key);
    const std::string_view near = nearest(key, keys);
    refuse("there is no setting '" + std::string(key) + "'",
           near.empty() ? std::string("'tutti info -c' lists them") : "did you mean '" + std::string(near) + "'?");
  }
  assign(*this, *info, value, blame(key, value, source));
  sources.insert_or_assign(std::string(key), std::string(source));
}

std::string value_text(const Settings& settings, const SettingInfo& info) {
  if (const auto* text = std::get_if<std::string Settings::*>(&info.member)) return settings.*(*text);
  if (const auto* real = std::get_if<double Settings::*>(&info.member)) return shown(info.key, settings.*(*real));
  return shown(info.key, settings.*std::get<std::int64_t Settings::*>(info.member));
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
