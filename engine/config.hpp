// Config: everything that a training run is made of, from YAML or JSON files and key=value words.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <variant>

namespace tutti::engine {

/// Values here are the defaults. A key of the table below is the path to a value: `optimizer.lr` is `optimizer.lr`
/// here, `optimizer: {lr: 0.1}` in a file, and `optimizer.lr=0.1` on a command line.
struct Config {
  struct Model {
    std::string name = "lenet";
    std::string hidden = "128";
  } model;

  struct Data {
    std::string source;
    std::int64_t samples = 4096;
    std::int64_t shift = 0;
    std::int64_t prefetch = 2;
  } data;

  struct Batch {
    std::int64_t global = 64;
  } batch;

  struct Optimizer {
    double lr = 0.05;
    double momentum = 0.9;
    double weight_decay = 0;
  } optimizer;

  struct Schedule {
    std::string name = "cosine";
    double warmup = 0;
  } schedule;

  struct Sync {
    std::string buffers = "broadcast";
    std::int64_t bucket_bytes = 1 << 20;
    std::int64_t first_bucket_bytes = 64 << 10;
  } sync;

  struct Report {
    std::string progress = "auto";
    std::string loss_file;
  } report;

  std::int64_t epochs = 10;
  std::int64_t steps = 0;
  double target = 0;
  std::int64_t seed = 1;
  std::string dtype = "float32";
  std::string device = "auto";
  std::int64_t threads = 1;

  /// Where each value that is not the default came from, by key: "digits.yaml:3", "the command line".
  std::map<std::string, std::string, std::less<>> sources;

  /// Sets one value by its key or an alias of it; numbers of bytes take K, M, G. Throws Error{invalid}: one line, with
  /// the nearest known key or the values that are allowed.
  void set(std::string_view key, std::string_view value, std::string_view source = "the program");

  /// "key=value".
  void set(std::string_view assignment);

  /// Reads a YAML or JSON file over the present values: maps are nested or have dotted keys, lists of values are joined
  /// by commas. Throws Error{invalid} naming file and line.
  void read(const std::filesystem::path& file);

  /// Throws Error{invalid} if values contradict one another or something needed is missing.
  void check() const;

  /// The whole configuration as YAML that read() takes, each value with a comment that says where it came from.
  std::string resolved() const;
};

/// A row of the table of keys, which the parser, the help, the book and resolved() are made from.
struct ConfigInfo {
  using Value = std::variant<std::string*, std::int64_t*, double*>;

  std::string_view key;
  Value (*value)(Config&);
  std::string_view meaning;
  std::string_view allowed = {};  ///< texts: the choices, separated by '|'
  std::string_view unit = {};
  double least = 0;               ///< numbers
  std::string_view aliases = {};  ///< other names, separated by blanks: shorter ones, and those of other trainers
};
std::span<const ConfigInfo> config_table() noexcept;

/// The value of a row as text that set() takes.
std::string value_text(const Config& config, const ConfigInfo& info);

/// The table as text for a terminal, and as a Markdown table for the book.
std::string config_help();
std::string config_markdown();

/// `name` as a file, or `name`.yaml in one of the folders. Throws Error{invalid} listing what there is.
std::filesystem::path find_config(const std::string& name, std::span<const std::filesystem::path> folders);

/// The learning rate of a step: a linear warm-up over `warmup` epochs, then constant or half a cosine to 0.
double learning_rate(const Config& config, std::size_t step, std::size_t steps_per_epoch, std::size_t total_steps);

}  // namespace tutti::engine
