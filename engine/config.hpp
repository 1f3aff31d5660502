// Config: everything that a training run is made of, from YAML or JSON files and key=value words.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "engine/options.hpp"
#include "engine/schedules.hpp"

namespace tutti::engine {

/// Values here are the defaults. A key of the table below is the path to a value: `optimizer.lr` is `optimizer.lr`
/// here, `optimizer: {lr: 0.1}` in a file, and `optimizer.lr=0.1` on a command line.
struct Config {
  struct Model {
    std::string name = "lenet";
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
    std::int64_t prefetch = 2;
    std::int64_t threads = 1;
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
    double bias_lr_factor = 1;
    bool decay_bias = true;
    bool decay_norm = true;
  } optimizer;

  struct Schedule {
    std::string name = "cosine";
    Options::Given options;
    double warmup = 0;
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
  } validate;

  struct Stop {
    std::int64_t patience = 0;
    std::int64_t smooth = 1;
    double target = 0;
  } stop;

  struct Checkpoint {
    std::int64_t every_epochs = 0;
    std::int64_t every_steps = 0;
    bool at_end = true;
    std::int64_t keep = 2;
    bool resume = false;
  } checkpoint;

  struct Report {
    std::string progress = "auto";
    std::string loss_file;
    std::int64_t trace = 0;
  } report;

  std::string run;
  std::string loss = "cross_entropy";
  std::int64_t epochs = 10;
  std::int64_t steps = 0;
  std::int64_t seed = 1;
  std::string deterministic = "off";
  std::string dtype = "float32";
  std::string precision = "full";
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

  /// batch.per_rank, if it is given, becomes batch.global of so many ranks.
  void settle_batch(int ranks);

  /// What check() says of validations and the run's folder alone: a program's own data and network need no more of the
  /// configuration.
  void check_run() const;
  bool has_folder() const { return !run.empty() && run != "none"; }
  /// And of what ranks exchange.
  void check_exchange() const;

  /// The whole configuration as YAML that read() takes, each value with a comment that says where it came from.
  std::string resolved() const;
};

/// A row of the table of keys, which the parser, the help, the book and resolved() are made from.
struct ConfigInfo {
  using Value = std::variant<std::string*, std::int64_t*, double*, bool*>;

  std::string_view key;
  Value (*value)(Config&);
  std::string_view meaning;
  std::string_view allowed = {};  ///< texts: the choices, separated by '|'
  std::string_view unit = {};
  double least = 0;               ///< numbers
  std::string_view aliases = {};  ///< other names, separated by blanks: shorter ones, and those of other trainers
  std::string (*spelling)(std::string_view) = nullptr;  ///< texts: what a value is called here
};
std::span<const ConfigInfo> config_table() noexcept;

/// A section with options of its own for each choice of its `name`: model, optimizer, schedule and strategy. A key such
/// as `optimizer.beta1` is an option of the optimizer.
struct ConfigChoice {
  std::string_view section;
  std::string_view key;  ///< of the choice: "optimizer.name"
  std::span<const ChoiceInfo> (*table)();
  const std::string& (*name)(const Config&);
  Options::Given& (*options)(Config&);
  std::span<const OptionInfo> (*shared)() = nullptr;  ///< options that all choices have, which differ in their values
};
std::span<const ConfigChoice> config_choices() noexcept;

/// Other names of options: "lr" of "optimizer.lr".
struct OptionAlias {
  std::string_view alias, key;
};
std::span<const OptionAlias> option_aliases() noexcept;

/// Every key, other name and option, as set() takes them.
std::vector<std::string> config_names();

/// The chosen optimizer's own learning rate: optimizer.lr, or what is usual for it.
double base_learning_rate(const Config& config);

/// Grains that a step is cut into with deterministic=membership: batch.grains, or as many as is usual; 0 without it.
std::size_t grains_of(const Config& config);

/// The value of a row as text that set() takes.
std::string value_text(const Config& config, const ConfigInfo& info);

/// The table as text for a terminal, and as a Markdown table for the book.
std::string config_help();
std::string config_markdown();

/// `name` as a file, or `name`.yaml in one of the folders. Throws Error{invalid} listing what there is.
std::filesystem::path find_config(const std::string& name, std::span<const std::filesystem::path> folders);

/// The schedule of the learning rate that a configuration means.
Schedule make_schedule(const Config& config);

}  // namespace tutti::engine
