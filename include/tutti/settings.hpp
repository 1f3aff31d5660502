// Settings: one table of typed values, each set by an environment variable, a config key or a flag. The settings of the
// whole library are here and in settings.cpp; those of a provider are in settings.hpp of its folder.
#pragma once

#include <cstdint>
#include <limits>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "tutti/status.hpp"

namespace tutti {

struct SettingInfo;

/// The values that a setting accepts, and if all ranks must use the same one.
struct SettingRules {
  double least = -std::numeric_limits<double>::infinity();  ///< least and most: the range of a number
  double most = std::numeric_limits<double>::infinity();
  std::string_view choices{};  ///< the accepted texts, separated by ", "; empty: any text
  bool agreed = false;         ///< all ranks use rank 0's value, because it decides which messages are sent
};

/// A setting of one provider, defined in settings.hpp of its folder and listed there in the array `<name>_settings`.
/// Every build has the setting in its table, also a build without that provider. T is std::string_view, double
/// (seconds) or std::int64_t (bytes if the key ends in _bytes).
template <class T>
struct ProviderSetting {
  std::string_view key;
  std::string_view meaning;
  T standard{};  ///< the default value
  SettingRules rules{};

  constexpr operator SettingInfo() const;
};

/// All settings: those of the whole library with their defaults, and the values that providers' settings are set to.
struct Settings {
  std::string log = "warn";                   // log
  std::string transport = "shm,ibverbs,tcp";  // transport: providers to try between two ranks, best first
  std::string backend;                        // backend: backends to prefer, best first
  std::string select;                         // select: rules 'kind: LOW..HIGH = [backend/]algorithm, ...; ...'
  std::string tuning = "auto";                // tuning: file of measured rules; auto: this machine's own, off: none
  std::string explain = "off";       // explain: on: rank 0 prints the backend and algorithm of each kind of call
  std::string module_path;           // module_path: folders with further modules, separated by ':'
  std::string accelerator = "cuda";  // accelerator: the module for devices; none: no devices
  std::string device_backends = "nccl,cudaipc";  // device_backends: tried for device memory, best first
  std::string home_cores = "on";                 // home_cores: on: if ranks fill the cores, each waits on its own core
  std::string verify = "light";  // verify: off, light (every message is checked), full (each call is checked first)
  std::string recorder = "on";   // recorder: the flight recorder: on, off, or a folder for files that stay
  std::string record = "calls";  // record: what is recorded: calls, or messages too
  double timeout = 300;          // timeout: seconds from launch to the deadline of a call
  double connect_timeout = 60;   // connect_timeout: seconds to find and connect the other ranks
  std::string iface;             // iface: interfaces or addresses that tcp may use, comma-separated
  std::string net;               // net: rate limit and added latency of each rank's link, for experiments: 50mbit,20ms
  std::string chaos;             // chaos: faults on purpose, for tests: seed=7,delay=8,lazy=30
  std::string host_id;           // host_id: overrides the host's identity
  std::string rack;              // rack: the rack of this host, outermost level first: rack7, pod1/rack7
  std::int64_t lane_bytes = 1 << 20;   // lane_bytes: a buffer is cut into lanes, parts of about this many bytes
  std::int64_t max_lanes = 4;          // max_lanes: at most this many lanes are in flight, or more if they are shorter
  std::int64_t stage_bytes = 2 << 20;  // stage_bytes: size of the slices in which device memory is staged on the host
  std::string remote_start = "ssh -o BatchMode=yes";  // remote_start: how `tutti run` starts a program on {host}
  std::string store;                                  // store: tcp://HOST:PORT or file:///DIR
  std::string secret;                                 // secret: the job's token
  std::string job;                                    // job: the job's name

  /// Reads the environment (TUTTI_<KEY>). Throws Error{invalid} if a value does not parse.
  static Settings from_environment();

  /// Sets one value by key ("lane_bytes", "64K"). Throws Error{invalid} naming the nearest key.
  void set(std::string_view key, std::string_view value, std::string_view source);

  /// The value of a provider's setting. Each call is a lookup by key: read it once, when connecting.
  std::string of(const ProviderSetting<std::string_view>& setting) const;
  double of(const ProviderSetting<double>& setting) const;
  std::int64_t of(const ProviderSetting<std::int64_t>& setting) const;

  /// The values that set() has stored for providers' settings, by key. They are no fields, so that a new setting of one
  /// provider does not require the modules of other providers to be compiled again.
  using Value = std::variant<std::string, double, std::int64_t>;
  std::map<std::string, Value, std::less<>> of_providers;

  /// The origin of each value that is not the default: key -> "environment", "flag", ...
  std::map<std::string, std::string, std::less<>> sources;

  /// TUTTI_* variables of the environment that are unknown.
  std::vector<std::string> unknown;
};

/// Logs a warning for each variable in `unknown`, with the nearest known name, once per process. Bootstrapping calls it
/// on rank 0, so that a job warns once. A program without a job must call it itself.
void warn_of_unknown(const Settings& settings);

/// A row of the table, for `tutti info -c` and for flags.
struct SettingInfo {
  std::string_view key;
  std::string_view meaning;
  /// The field in Settings, or the default of a provider's setting. The type held is the type of the setting.
  std::variant<std::string Settings::*, double Settings::*, std::int64_t Settings::*, std::string_view, double,
               std::int64_t>
      value;
  SettingRules rules{};
};

template <class T>
constexpr ProviderSetting<T>::operator SettingInfo() const {
  return {key, meaning, standard, rules};
}

/// First the rows of the whole library, then those of each folder of a provider.
std::span<const SettingInfo> setting_table() noexcept;

/// The rows of the providers' folders (generated).
std::span<const std::span<const SettingInfo>> provider_settings() noexcept;

/// The value as text, in the form that set() accepts.
std::string value_text(const Settings& settings, const SettingInfo& info);

/// "64K", "1M", "2G", "17" -> bytes. Throws Error{invalid}.
std::int64_t parse_bytes(std::string_view text);

/// The candidate closest to `word` by edit distance, "" when none is near.
std::string_view nearest(std::string_view word, std::span<const std::string_view> candidates) noexcept;

}  // namespace tutti
