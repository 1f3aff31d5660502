// The keys of a configuration, and what is printed of them.
#include <charconv>
#include <string>
#include <type_traits>

#include "engine/config.hpp"

namespace tutti::engine {
namespace {

using Value = ConfigInfo::Value;

// A section's values stand together; a name of one word is its own section.
constexpr ConfigInfo table[] = {
    {.key = "model.name",
     .value = [](Config& c) -> Value { return &c.model.name; },
     .meaning = "the network",
     .allowed = "lenet|mlp",
     .aliases = "model"},
    {.key = "model.hidden",
     .value = [](Config& c) -> Value { return &c.model.hidden; },
     .meaning = "mlp: sizes of the hidden layers, comma-separated",
     .aliases = "hidden"},
    {.key = "data.source",
     .value = [](Config& c) -> Value { return &c.data.source; },
     .meaning = "a folder with MNIST's four IDX files, or random:CxHxW",
     .aliases = "data"},
    {.key = "data.samples",
     .value = [](Config& c) -> Value { return &c.data.samples; },
     .meaning = "samples of random:CxHxW",
     .least = 1,
     .aliases = "random_samples"},
    {.key = "data.shift",
     .value = [](Config& c) -> Value { return &c.data.shift; },
     .meaning = "move each training image by up to so many pixels each way",
     .unit = "pixels",
     .aliases = "shift"},
    {.key = "data.prefetch",
     .value = [](Config& c) -> Value { return &c.data.prefetch; },
     .meaning = "batches prepared ahead",
     .unit = "batches",
     .least = 1,
     .aliases = "prefetch preload_data"},
    {.key = "batch.global",
     .value = [](Config& c) -> Value { return &c.batch.global; },
     .meaning = "samples of a step, of all ranks together",
     .unit = "samples",
     .least = 1,
     .aliases = "batch"},
    {.key = "optimizer.lr",
     .value = [](Config& c) -> Value { return &c.optimizer.lr; },
     .meaning = "learning rate",
     .aliases = "lr learning_rate"},
    {.key = "optimizer.momentum",
     .value = [](Config& c) -> Value { return &c.optimizer.momentum; },
     .meaning = "of SGD",
     .aliases = "momentum"},
    {.key = "optimizer.weight_decay",
     .value = [](Config& c) -> Value { return &c.optimizer.weight_decay; },
     .meaning = "of SGD",
     .aliases = "weight_decay"},
    {.key = "schedule.name",
     .value = [](Config& c) -> Value { return &c.schedule.name; },
     .meaning = "learning rate after the warm-up",
     .allowed = "cosine|constant",
     .aliases = "schedule lr_policy"},
    {.key = "schedule.warmup",
     .value = [](Config& c) -> Value { return &c.schedule.warmup; },
     .meaning = "linear warm-up",
     .unit = "epochs",
     .aliases = "warmup"},
    {.key = "sync.buffers",
     .value = [](Config& c) -> Value { return &c.sync.buffers; },
     .meaning = "running statistics after an epoch: rank 0's, their mean, or each rank's own",
     .allowed = "broadcast|average|local",
     .aliases = "buffers"},
    {.key = "sync.bucket_bytes",
     .value = [](Config& c) -> Value { return &c.sync.bucket_bytes; },
     .meaning = "gradients travel in buckets of at most this",
     .unit = "bytes",
     .least = 1,
     .aliases = "bucket_bytes"},
    {.key = "sync.first_bucket_bytes",
     .value = [](Config& c) -> Value { return &c.sync.first_bucket_bytes; },
     .meaning = "the first bucket, which is ready first",
     .unit = "bytes",
     .least = 1,
     .aliases = "first_bucket_bytes"},
    {.key = "report.progress",
     .value = [](Config& c) -> Value { return &c.report.progress; },
     .meaning = "the live line: auto shows it on a terminal only",
     .allowed = "auto|on|off",
     .aliases = "progress"},
    {.key = "report.loss_file",
     .value = [](Config& c) -> Value { return &c.report.loss_file; },
     .meaning = "writes step,loss of every step here",
     .aliases = "loss_file"},
    {.key = "epochs",
     .value = [](Config& c) -> Value { return &c.epochs; },
     .meaning = "passes over the data",
     .unit = "epochs",
     .least = 1,
     .aliases = "n_epochs"},
    {.key = "steps",
     .value = [](Config& c) -> Value { return &c.steps; },
     .meaning = "end after so many; 0: when the epochs are done",
     .unit = "steps"},
    {.key = "target",
     .value = [](Config& c) -> Value { return &c.target; },
     .meaning = "exit with 1 unless the held-out accuracy reaches this",
     .unit = "percent"},
    {.key = "seed",
     .value = [](Config& c) -> Value { return &c.seed; },
     .meaning = "of initialisation, order and augmentation",
     .aliases = "weight_init_seed"},
    {.key = "dtype",
     .value = [](Config& c) -> Value { return &c.dtype; },
     .meaning = "element type of the network",
     .allowed = "float32|float64"},
    {.key = "device",
     .value = [](Config& c) -> Value { return &c.device; },
     .meaning = "where to train: auto takes GPUs if every rank has one",
     .allowed = "auto|cpu|cuda"},
    {.key = "threads",
     .value = [](Config& c) -> Value { return &c.threads; },
     .meaning = "compute threads of each rank",
     .least = 1},
};

std::string padded(std::string text, std::size_t width) {
  text.resize(std::max(text.size() + 1, width), ' ');
  return text;
}

std::string with_commas(std::string_view words) {
  std::string text(words);
  for (std::size_t at = 0; (at = text.find(' ', at)) != text.npos; at += 2) text.replace(at, 1, ", ");
  return text;
}

std::string_view section(std::string_view key) { return key.substr(0, key.find('.')); }

/// YAML keeps these as they are; anything else is put in quotes.
bool plain(std::string_view text) {
  constexpr std::string_view safe = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_./+-";
  return !text.empty() && text.find_first_not_of(safe) == text.npos && text.front() != '-';
}

std::string as_yaml(const std::string& text) {
  if (plain(text)) return text;
  std::string quoted = "\"";
  for (const char c : text) {
    if (c == '"' || c == '\\') quoted += '\\';
    quoted += c;
  }
  return quoted + "\"";
}

}  // namespace

std::span<const ConfigInfo> config_table() noexcept { return table; }

std::string value_text(const Config& config, const ConfigInfo& info) {
  const ConfigInfo::Value value = info.value(const_cast<Config&>(config));  // which is only read
  return std::visit(
      [](const auto* from) {
        if constexpr (std::is_same_v<decltype(from), const std::string*>) {
          return *from;
        } else {
          char text[32];
          return std::string(text, std::to_chars(text, text + sizeof text, *from).ptr);
        }
      },
      value);
}

std::string Config::resolved() const {
  std::string text, open;
  for (const ConfigInfo& info : table) {
    const bool nested = info.key.find('.') != info.key.npos;
    if (nested && open != section(info.key)) text += std::string(section(info.key)) + ":\n";
    open = section(info.key);
    const std::string name(nested ? info.key.substr(open.size() + 1) : info.key);
    const std::string line = (nested ? "  " : "") + name + ": " + as_yaml(value_text(*this, info));
    const auto source = sources.find(info.key);
    text += padded(line, 40) + "# " + (source == sources.end() ? "default" : source->second) + "\n";
  }
  return text;
}

std::string config_help() {
  const Config defaults;
  std::string text = "Keys, for files (nested or dotted) and for key=value:\n";
  for (const ConfigInfo& info : table) {
    const std::string value = value_text(defaults, info);
    text += "  " + padded(std::string(info.key), 26) + std::string(info.meaning);
    if (!info.allowed.empty()) text += " (" + std::string(info.allowed) + ")";
    if (!value.empty()) text += " [" + value + (info.unit.empty() ? "" : " " + std::string(info.unit)) + "]";
    if (!info.aliases.empty()) text += "; also " + with_commas(info.aliases);
    text += "\n";
  }
  return text;
}

std::string config_markdown() {
  const Config defaults;
  std::string text = "| key | default | unit | meaning | other names |\n|---|---|---|---|---|\n";
  for (const ConfigInfo& info : table) {
    std::string choices;
    for (const char c : info.allowed) choices += c == '|' ? std::string(", ") : std::string(1, c);
    text += "| `" + std::string(info.key) + "` | " + value_text(defaults, info) + " | " + std::string(info.unit) +
            " | " + std::string(info.meaning) + (choices.empty() ? "" : ": " + choices) + " | " +
            with_commas(info.aliases) + " |\n";
  }
  return text;
}

}  // namespace tutti::engine
