// Config: everything that a training run is made of, from a YAML file and key=value words.
#pragma once

#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <string_view>
#include <variant>

namespace tutti::engine {

/// Values here are the defaults. Flat on purpose: a key in the file is a word on the command line.
struct Config {
  std::string model = "lenet";
  std::string data;
  std::string dtype = "float32";
  std::string device = "auto";
  std::string hidden = "128";
  std::string schedule = "cosine";
  std::string buffers = "broadcast";
  std::string progress = "auto";
  std::string loss_file;
  std::int64_t seed = 1;
  std::int64_t epochs = 10;
  std::int64_t steps = 0;
  std::int64_t batch = 64;
  std::int64_t shift = 0;
  std::int64_t random_samples = 4096;
  std::int64_t prefetch = 2;
  std::int64_t threads = 1;
  std::int64_t bucket_bytes = 1 << 20;
  std::int64_t first_bucket_bytes = 64 << 10;
  double lr = 0.05;
  double momentum = 0.9;
  double weight_decay = 0;
  double warmup = 0;
  double target = 0;

  /// Sets one key; numbers of bytes take K, M, G. Throws Error{invalid}: one line, with the nearest known key
  /// or the values that are allowed.
  void set(std::string_view key, std::string_view value);

  /// "key=value".
  void set(std::string_view assignment);

  /// Reads a YAML map over the present values. Throws Error{invalid} naming file and line.
  void read(const std::filesystem::path& file);

  /// Throws Error{invalid} if values contradict one another or something needed is missing.
  void check() const;
};

struct ConfigInfo {
  std::string_view key;
  std::string_view meaning;
  std::variant<std::string Config::*, std::int64_t Config::*, double Config::*> member;
  std::string_view allowed = {};  ///< texts: the choices, separated by '|'
  double least = 0;               ///< numbers
};
std::span<const ConfigInfo> config_table() noexcept;

/// `name` as a file, or `name`.yaml in one of the folders. Throws Error{invalid} listing what there is.
std::filesystem::path find_config(const std::string& name, std::span<const std::filesystem::path> folders);

/// The learning rate of a step: a linear warm-up over `warmup` epochs, then constant or half a cosine to 0.
double learning_rate(const Config& config, std::size_t step, std::size_t steps_per_epoch, std::size_t total_steps);

}  // namespace tutti::engine
