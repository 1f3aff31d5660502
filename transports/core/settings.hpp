// Settings: one table of typed values, each set by an environment variable, a config key or a flag.
#pragma once

#include <map>
#include <span>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "transports/core/status.hpp"

namespace tutti {

/// All settings, with their defaults.
struct Settings {
  std::string log = "warn";                   // log
  std::string transport = "shm,ibverbs,tcp";  // transport: providers to try between two ranks, best first
  std::string backend;                        // backend: backends to prefer, best first
  std::string select;                         // select: rules 'kind: LOW..HIGH = [backend/]algorithm, ...; ...'
  std::string tuning = "auto";                // tuning: file of measured rules; auto: this machine's own, off: none
  std::string explain = "off";       // explain: on: rank 0 says which backend and algorithm each kind of call takes
  std::string module_path;           // module_path: folders with further modules, separated by ':'
  std::string accelerator = "cuda";  // accelerator: the module for devices; none: without
  std::string mpi_library;           // mpi_library: the MPI to use where the program has none yet
  std::int64_t mpi_min_bytes = 0;    // mpi_min_bytes: the MPI preload leaves smaller calls to MPI
  std::int64_t mpi_check = 0;        // mpi_check: 1: under the MPI preload, MPI makes each call too, to compare
  std::string device_backends = "nccl,cudaipc";  // device_backends: tried for device memory, best first
  std::string nccl_library;                      // nccl_library: the NCCL to use; empty: the program's, or the system's
  std::string nccl_shared_gpu = "off";           // nccl_shared_gpu: on: NCCL may try several ranks on one GPU
  std::string nccl_order = "agreed";             // nccl_order: of launches: agreed among the ranks, or as issued
  std::string home_cores = "on";                 // home_cores: on: ranks that fill the cores wait on one each
  std::string verify = "light";  // verify: off, light (every message is checked), full (each call is checked first)
  double timeout = 300;          // timeout: seconds from launch to the deadline of a call
  double connect_timeout = 60;   // connect_timeout: seconds to find and connect the other ranks
  std::string iface;             // iface: interfaces or addresses that tcp may use, comma-separated
  std::string tcp_congestion = "cubic,reno";  // tcp_congestion: the first that the kernel has and allows
  std::int64_t tcp_connections = 0;           // tcp_connections: between two ranks; 0: several between hosts
  std::string ib_device;                      // ib_device: the one RDMA device to use
  std::int64_t ib_port = 0;                   // ib_port: of it; 0: all
  std::int64_t ib_gid_index = -1;             // ib_gid_index: of the address to use; -1: the best
  std::string net;                     // net: links between ranks are made to have this rate and latency: 50mbit,20ms
  std::string host_id;                 // host_id: overrides the host's identity
  std::string shm_dir = "/dev/shm";    // shm_dir: for the segment, where memfd is refused
  std::int64_t shm_bytes = 32 << 20;   // shm_bytes: upper bound of one job's segment on a host
  std::int64_t lane_bytes = 1 << 20;   // lane_bytes: a buffer is cut into lanes of about this many bytes
  std::int64_t max_lanes = 4;          // max_lanes: at most this many lanes are in flight
  std::int64_t stage_bytes = 2 << 20;  // stage_bytes: device memory goes through the host in slices of this many bytes
  std::string remote_start = "ssh -o BatchMode=yes";  // remote_start: how `tutti run` starts something on {host}
  std::string store;                                  // store: tcp://HOST:PORT or file:///DIR
  std::string secret;                                 // secret: the job's token
  std::string job;                                    // job: the job's name

  /// Reads the environment (TUTTI_<KEY>). Throws Error{invalid} if a value does not parse.
  static Settings from_environment();

  /// Sets one value by key ("lane_bytes", "64K"). Throws Error{invalid} naming the nearest key.
  void set(std::string_view key, std::string_view value, std::string_view source);

  /// The origin of each value that is not the default: key -> "environment", "flag", ...
  std::map<std::string, std::string, std::less<>> sources;

  /// TUTTI_* variables of the environment that are unknown.
  std::vector<std::string> unknown;
};

/// Logs a warning for each variable in `unknown`, with the nearest known name, once per process. Bootstrapping calls it
/// on rank 0, so that a job warns once; what runs without a job must call it itself.
void warn_of_unknown(const Settings& settings);

/// A row of the table, for `tutti info -c` and for flags.
struct SettingInfo {
  std::string_view key;
  std::string_view meaning;
  std::variant<std::string Settings::*, double Settings::*, std::int64_t Settings::*> member;
};
std::span<const SettingInfo> setting_table() noexcept;

/// The value as text, in the form that set() accepts.
std::string value_text(const Settings& settings, const SettingInfo& info);

/// "64K", "1M", "2G", "17" -> bytes. Throws Error{invalid}.
std::int64_t parse_bytes(std::string_view text);

/// The candidate closest to `word` by edit distance, "" when none is near.
std::string_view nearest(std::string_view word, std::span<const std::string_view> candidates) noexcept;

}  // namespace tutti
