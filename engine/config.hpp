// Config: all settings of a training run, read from YAML or JSON files and key=value arguments.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "engine/config/options.hpp"

namespace tutti::engine {

/// The values here are the defaults. A key is the path to a member: optimizer.name is `optimizer: {name: adam}` in a
/// file and `optimizer.name=adam` on a command line.
struct Config {
  struct Model {
    std::string name = "lenet";
    std::int64_t outputs = 0;
    std::string from = {};
    bool strict = true;
    Options::Given options;
  } model;

  struct Data {
    std::string source;
    std::int64_t samples = 4096;
    std::int64_t shift = 0;
    std::int64_t crop = 0;
    bool mirror = false;
    std::string way = "batch";
    std::string remainder = "uneven";
    std::string last = "auto";
    std::string order = "auto";
    std::int64_t prefetch = 2;
    std::int64_t threads = 1;
    std::int64_t max_pixels = 178'956'970;
    std::int64_t max_compression = 100;
    bool external_files = false;
  } data;

  struct Batch {
    std::int64_t global = 64;
    std::int64_t per_rank = 0;
    std::int64_t micro = 0;
    std::int64_t grains = 0;
  } batch;

  struct Optimizer {
    std::string name = "momentum";
    Options::Given options;
    double clip = 0;
    double ema = 0;
    double bias_lr_factor = 1;
    bool decay_bias = true;
    bool decay_norm = true;
  } optimizer;

  struct Schedule {
    std::string name = "cosine";
    Options::Given options;
    double warmup = 0;
    std::int64_t warmup_steps = 0;
    std::string rise = "linear";
    double scale = 1;
  } schedule;

  struct Strategy {
    std::string name = "bsp";
    Options::Given options;
  } strategy;

  struct Sync {
    std::string buffers = "broadcast";
    bool batch_norm = false;
    std::int64_t bucket_bytes = 1 << 20;
    std::int64_t first_bucket_bytes = 64 << 10;
  } sync;

  struct Parallel {
    std::string mode = "auto";
    std::int64_t data = 0;
    std::int64_t depth = 1;
    std::int64_t height = 1;
    std::int64_t width = 1;
    std::int64_t sequence = 1;
    std::int64_t tensor = 1;
    std::string layers;
  } parallel;

  struct Pretrain {
    std::int64_t epochs = 0;
    std::int64_t head_epochs = 0;
    double sparsity = 0.1;
    bool tied = true;
  } pretrain;

  struct Validate {
    std::int64_t every_steps = 0;
    std::int64_t every_samples = 0;
    std::int64_t limit = 0;
  } validate;

  struct Stop {
    std::int64_t patience = 0;
    std::int64_t smooth = 1;
    std::string monitor;
    double min_delta = 0;
    double target = 0;
  } stop;

  struct Checkpoint {
    std::int64_t every_epochs = 0;
    std::int64_t every_steps = 0;
    bool at_end = true;
    std::int64_t keep = 2;
    bool verify = true;
    std::int64_t shard_from = 1024;
    std::string resume = "false";
    bool resumes() const { return resume != "false" && resume != "off"; }
  } checkpoint;

  struct Elastic {
    std::int64_t min = 0;
    std::int64_t max = 0;
    std::string batch = "keep";
    bool is_on() const { return max > 0; }
  } elastic;

  struct Report {
    std::string progress = "auto";
    std::string loss_file;
    std::string samples = {};
    std::int64_t trace = 0;
  } report;

  std::string run;
  std::string loss = "cross_entropy";
  double label_smoothing = 0;
  std::int64_t epochs = 10;
  std::int64_t steps = 0;
  double max_time = 0;
  std::int64_t seed = 1;
  std::string deterministic = "off";
  std::string on_nan = "stop";
  std::string dtype = "float32";
  std::string precision = "full";
  std::string device = "auto";
  std::int64_t threads = 1;

  /// Totals of the whole job, for a trainer that is only a part of it: processes, those of parameter servers included,
  /// and samples per step. They are written into the run's folder. 0: the trainer's own number. These are no keys.
  struct Whole {
    int processes = 0;
    std::int64_t batch = 0;
  } whole;

  /// By key, where each value that is not a default came from: "digits.yaml:3", "the command line".
  std::map<std::string, std::string, std::less<>> sources;

  /// Sets a value by its key or an alias; numbers of bytes accept K, M, G. Throws Error{invalid}, in one line, with the
  /// nearest known key or the allowed values.
  void set(std::string_view key, std::string_view value, std::string_view source = "the program");

  /// Sets "key=value".
  void set(std::string_view assignment);

  /// Reads a YAML or JSON file over the current values. Keys are nested or dotted; lists are joined by commas. Throws
  /// Error{invalid} with file and line.
  void read(const std::filesystem::path& file);

  /// Throws Error{invalid} if values contradict each other or a required one is missing.
  void check() const;

  /// If batch.per_rank is set, sets batch.global to that times `ranks`.
  void resolve_batch(int ranks);

  /// The part of check() on validation and the run's folder, for programs with a network and data of their own.
  void check_run() const;
  /// The part of check() on what ranks exchange.
  void check_exchange() const;
  /// Throws Error{invalid} for settings that a network over a mesh of `ranks` ranks does not support.
  void check_split(int ranks) const;
  bool has_folder() const { return !run.empty() && run != "none"; }
  /// True if a checkpoint is written when training ends, even if it ends early.
  bool keeps_the_end() const {
    return has_folder() && (checkpoint.at_end || checkpoint.every_epochs > 0 || checkpoint.every_steps > 0);
  }

  /// The whole configuration as YAML that read() accepts; a comment at each value says where it came from.
  std::string resolved() const;
};

/// Further facts about the value of a key, for a row of the table of keys.
struct ConfigNotes {
  std::string_view allowed = {};  ///< for texts: the choices, separated by '|'
  std::string_view unit = {};
  double least = 0;               ///< for numbers: the smallest value
  std::string_view aliases = {};  ///< other names, separated by blanks: shorter ones, and those of other trainers
  std::string (*spelling)(std::string_view) = nullptr;  ///< for texts: maps a value to the name used here
};

/// A row of the table of keys, from which the parser, the help text, the book and resolved() are generated.
struct ConfigInfo : ConfigNotes {
  using Value = std::variant<std::string*, std::int64_t*, double*, bool*>;

  constexpr ConfigInfo(std::string_view name, Value (*member)(Config&), std::string_view what, ConfigNotes notes = {})
      : ConfigNotes(notes), key(name), value(member), meaning(what) {}

  std::string_view key;
  Value (*value)(Config&);
  std::string_view meaning;
};
std::span<const ConfigInfo> config_table() noexcept;

/// A section whose `name` selects an entry of a table with its own options: model, optimizer, schedule and strategy. A
/// key such as `optimizer.beta1` is an option of the selected optimizer.
struct ConfigChoice {
  std::string_view section;
  std::string_view key;  ///< the key that selects: "optimizer.name"
  std::span<const ChoiceInfo> (*table)();
  const std::string& (*name)(const Config&);
  Options::Given& (*options)(Config&);
  std::span<const OptionInfo> (*shared)() = nullptr;  ///< options that all entries have, with different defaults
};
std::span<const ConfigChoice> config_choices() noexcept;

/// Aliases of options: "lr" for "optimizer.lr".
struct OptionAlias {
  std::string_view alias, key;
};
std::span<const OptionAlias> option_aliases() noexcept;

/// Every key, alias and option that set() accepts.
std::vector<std::string> config_names();

/// The learning rate of the chosen optimizer: optimizer.lr, or its default.
double base_learning_rate(const Config& config);

/// The number of grains, the parts of a step with deterministic=membership: batch.grains or its default. 0: no grains.
std::size_t grains_of(const Config& config);

/// The value of a row as text that set() accepts.
std::string value_text(const Config& config, const ConfigInfo& info);

/// The table as text for a terminal, and as Markdown for the book.
std::string config_help();
std::string config_markdown();

/// The path `name`, or NAME.yaml in one of the folders. Throws Error{invalid} with a list of the configurations there.
std::filesystem::path find_config(const std::string& name, std::span<const std::filesystem::path> folders);

}  // namespace tutti::engine
