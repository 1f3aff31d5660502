// The keys of a configuration, and what is printed of them.
#include <charconv>
#include <string>
#include <type_traits>

#include "engine/config.hpp"
#include "engine/models/table.hpp"
#include "engine/optimizers/table.hpp"

namespace tutti::engine {
namespace {

using Value = ConfigInfo::Value;

// A section's values stand together; a name of one word is its own section.
constexpr ConfigInfo table[] = {
    {.key = "model.name",
     .value = [](Config& c) -> Value { return &c.model.name; },
     .meaning = "the network, or a file: layers in YAML or JSON, Keras JSON, TorchScript (.pt)",
     .aliases = "model"},
    {.key = "data.source",
     .value = [](Config& c) -> Value { return &c.data.source; },
     .meaning = "what to train on: a folder with MNIST's IDX files, or kind:value, as in cifar10:DIR, "
                "hdf5:train.txt,test.txt, random:3x32x32",
     .aliases = "data data_source"},
    {.key = "data.samples",
     .value = [](Config& c) -> Value { return &c.data.samples; },
     .meaning = "samples of random:",
     .least = 1,
     .aliases = "random_samples"},
    {.key = "data.shift",
     .value = [](Config& c) -> Value { return &c.data.shift; },
     .meaning = "move each training image by up to so many pixels each way",
     .unit = "pixels",
     .aliases = "shift"},
    {.key = "data.crop",
     .value = [](Config& c) -> Value { return &c.data.crop; },
     .meaning = "put so many zeros around each training image, and cut a window of its size out anywhere",
     .unit = "pixels",
     .aliases = "crop"},
    {.key = "data.mirror",
     .value = [](Config& c) -> Value { return &c.data.mirror; },
     .meaning = "turn each training image left to right, half of the time",
     .aliases = "mirror"},
    {.key = "data.way",
     .value = [](Config& c) -> Value { return &c.data.way; },
     .meaning =
         "how samples are dealt out: each global batch cut over the ranks, or to each rank a stretch of the epoch's "
         "order, every so-many-th sample of it, or whole files",
     .allowed = "batch|contiguous|strided|file"},
    {.key = "data.remainder",
     .value = [](Config& c) -> Value { return &c.data.remainder; },
     .meaning =
         "samples that do not come out even: some ranks have fewer in some steps, a few are left out, or seen twice",
     .allowed = "uneven|drop|pad"},
    {.key = "data.prefetch",
     .value = [](Config& c) -> Value { return &c.data.prefetch; },
     .meaning = "batches prepared ahead",
     .unit = "batches",
     .least = 1,
     .aliases = "prefetch preload_data"},
    {.key = "data.threads",
     .value = [](Config& c) -> Value { return &c.data.threads; },
     .meaning = "threads that prepare batches",
     .least = 1},
    {.key = "batch.global",
     .value = [](Config& c) -> Value { return &c.batch.global; },
     .meaning = "samples of a step, of all ranks together",
     .unit = "samples",
     .least = 1,
     .aliases = "batch"},
    {.key = "batch.per_rank",
     .value = [](Config& c) -> Value { return &c.batch.per_rank; },
     .meaning = "samples of a step of each rank, in the place of batch.global: of the two, the one said last holds",
     .unit = "samples",
     .aliases = "batch_size"},
    {.key = "batch.micro",
     .value = [](Config& c) -> Value { return &c.batch.micro; },
     .meaning = "a rank takes at most so many at once and adds their gradients up; 0: all of a step",
     .unit = "samples",
     .aliases = "micro_batch"},
    {.key = "loss",
     .value = [](Config& c) -> Value { return &c.loss; },
     .meaning =
         "what training makes smaller: cross_entropy, nll, mse, l1, smooth_l1, bce, bce_logits, or Keras' name of it"},
    {.key = "optimizer.name",
     .value = [](Config& c) -> Value { return &c.optimizer.name; },
     .meaning = "how parameters follow their gradients",
     .aliases = "optimizer"},
    {.key = "optimizer.clip",
     .value = [](Config& c) -> Value { return &c.optimizer.clip; },
     .meaning = "scale gradients down so that their norm is at most this; 0: never",
     .aliases = "clip clip_norm"},
    {.key = "optimizer.bias_lr_factor",
     .value = [](Config& c) -> Value { return &c.optimizer.bias_lr_factor; },
     .meaning = "of biases' learning rate"},
    {.key = "optimizer.decay_bias",
     .value = [](Config& c) -> Value { return &c.optimizer.decay_bias; },
     .meaning = "weight decay of biases"},
    {.key = "optimizer.decay_norm",
     .value = [](Config& c) -> Value { return &c.optimizer.decay_norm; },
     .meaning = "weight decay of normalisation layers"},
    {.key = "schedule.name",
     .value = [](Config& c) -> Value { return &c.schedule.name; },
     .meaning = "learning rate after the warm-up",
     .aliases = "schedule lr_policy"},
    {.key = "schedule.warmup",
     .value = [](Config& c) -> Value { return &c.schedule.warmup; },
     .meaning = "the learning rate rises so long",
     .unit = "epochs",
     .aliases = "warmup"},
    {.key = "schedule.rise",
     .value = [](Config& c) -> Value { return &c.schedule.rise; },
     .meaning = "how it rises: linear in steps from 0, or by a power of the scale in each epoch",
     .allowed = "linear|power"},
    {.key = "schedule.scale",
     .value = [](Config& c) -> Value { return &c.schedule.scale; },
     .meaning = "what the learning rate is multiplied by, such as the number of ranks"},
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
    {.key = "validate.every_steps",
     .value = [](Config& c) -> Value { return &c.validate.every_steps; },
     .meaning = "look at the held-out samples after every so many; 0: after each epoch",
     .unit = "steps",
     .aliases = "validate_every"},
    {.key = "validate.every_samples",
     .value = [](Config& c) -> Value { return &c.validate.every_samples; },
     .meaning = "or after every so many, of all ranks together, each counted once in an epoch",
     .unit = "samples"},
    {.key = "stop.patience",
     .value = [](Config& c) -> Value { return &c.stop.patience; },
     .meaning = "end after so many without a better metric; 0: never",
     .unit = "validations",
     .aliases = "patience"},
    {.key = "stop.smooth",
     .value = [](Config& c) -> Value { return &c.stop.smooth; },
     .meaning = "patience looks at the mean of so many last ones, which hides what is chance; 1: at each by itself",
     .unit = "validations",
     .least = 1},
    {.key = "stop.target",
     .value = [](Config& c) -> Value { return &c.stop.target; },
     .meaning = "end with the first validation whose metric is as good as this: an accuracy in percent, an error, or "
                "what a program's own metric says; `tutti train` exits with 1 where the last one is not; 0: none",
     .aliases = "target target_metric"},
    {.key = "run",
     .value = [](Config& c) -> Value { return &c.run; },
     .meaning =
         "folder of the run: its configuration, metrics and checkpoints; none: there is none; left out, `tutti train` "
         "makes runs/MODEL-TIME",
     .aliases = "record_dir"},
    {.key = "checkpoint.every_epochs",
     .value = [](Config& c) -> Value { return &c.checkpoint.every_epochs; },
     .meaning = "write one into run= after every so many; 0: only with every_steps",
     .unit = "epochs",
     .aliases = "snapshot_freq checkpoint_interval"},
    {.key = "checkpoint.every_steps",
     .value = [](Config& c) -> Value { return &c.checkpoint.every_steps; },
     .meaning = "and after every so many",
     .unit = "steps"},
    {.key = "checkpoint.keep",
     .value = [](Config& c) -> Value { return &c.checkpoint.keep; },
     .meaning = "of the newest, beside the best; 0: all"},
    {.key = "checkpoint.resume",
     .value = [](Config& c) -> Value { return &c.checkpoint.resume; },
     .meaning = "go on from the last one in run=, if there is one",
     .aliases = "resume resume_train"},
    {.key = "report.progress",
     .value = [](Config& c) -> Value { return &c.report.progress; },
     .meaning = "the live line: auto shows it on a terminal only; none leaves the other lines out, too",
     .allowed = "auto|on|off|none",
     .aliases = "progress"},
    {.key = "report.loss_file",
     .value = [](Config& c) -> Value { return &c.report.loss_file; },
     .meaning = "writes step,loss of every step here",
     .aliases = "loss_file"},
    {.key = "report.trace",
     .value = [](Config& c) -> Value { return &c.report.trace; },
     .meaning =
         "what all ranks do in the first so many goes into trace.json in run=, for chrome://tracing and Perfetto",
     .unit = "steps",
     .aliases = "trace"},
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
    {.key = "seed",
     .value = [](Config& c) -> Value { return &c.seed; },
     .meaning = "of initialisation, order, augmentation and dropout",
     .aliases = "weight_init_seed"},
    {.key = "dtype",
     .value = [](Config& c) -> Value { return &c.dtype; },
     .meaning = "element type of the network",
     .allowed = "float32|float64"},
    {.key = "precision",
     .value = [](Config& c) -> Value { return &c.precision; },
     .meaning = "of forward on the CPU: that of dtype, or products in bfloat16 where LibTorch's autocast has them so; "
                "weights, "
                "gradients and losses stay of dtype",
     .allowed = "full|bf16"},
    {.key = "device",
     .value = [](Config& c) -> Value { return &c.device; },
     .meaning = "where to train: auto takes GPUs if every rank has one",
     .allowed = "auto|cpu|cuda"},
    {.key = "threads",
     .value = [](Config& c) -> Value { return &c.threads; },
     .meaning = "compute threads of each rank",
     .least = 1},
};

constexpr ConfigChoice choices[] = {
    {.section = "model",
     .table = model_table,
     .name = [](const Config& c) -> const std::string& { return c.model.name; },
     .options = [](Config& c) -> Options::Given& { return c.model.options; }},
    {.section = "optimizer",
     .table = optimizer_table,
     .name = [](const Config& c) -> const std::string& { return c.optimizer.name; },
     .options = [](Config& c) -> Options::Given& { return c.optimizer.options; }},
    {.section = "schedule",
     .table = schedule_table,
     .name = [](const Config& c) -> const std::string& { return c.schedule.name; },
     .options = [](Config& c) -> Options::Given& { return c.schedule.options; }},
};

constexpr OptionAlias aliases[] = {
    {"hidden", "model.hidden"},
    {"lr", "optimizer.lr"},
    {"learning_rate", "optimizer.lr"},
    {"momentum", "optimizer.momentum"},
    {"weight_decay", "optimizer.weight_decay"},
    {"lr_step", "schedule.milestones"},
    {"gamma", "schedule.gamma"},
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

/// The options of the choice that `config` makes, given or not; of a model in a file, those that are given.
Options::Given chosen_options(const Config& config, const ConfigChoice& choice) {
  Options::Given found = choice.options(const_cast<Config&>(config));  // which is only read
  for (const ChoiceInfo& one : choice.table())
    if (one.name == choice.name(config))
      for (const OptionInfo& option : one.options) found.emplace(option.key, option.value);
  return found;
}

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
std::span<const ConfigChoice> config_choices() noexcept { return choices; }
std::span<const OptionAlias> option_aliases() noexcept { return aliases; }

std::string value_text(const Config& config, const ConfigInfo& info) {
  const ConfigInfo::Value value = info.value(const_cast<Config&>(config));  // which is only read
  return std::visit(
      [](const auto* from) {
        if constexpr (std::is_same_v<decltype(from), const std::string*>) {
          return *from;
        } else if constexpr (std::is_same_v<decltype(from), const bool*>) {
          return std::string(*from ? "true" : "false");
        } else {
          char text[32];
          return std::string(text, std::to_chars(text, text + sizeof text, *from).ptr);
        }
      },
      value);
}

std::string Config::resolved() const {
  std::string text, open;
  const auto line = [&](std::string_view key, const std::string& value) {
    const auto source = sources.find(key);
    const std::string shown = (open.empty() ? "" : "  ") + std::string(key.substr(open.empty() ? 0 : open.size() + 1));
    text += padded(shown + ": " + as_yaml(value), 40) + "# " + (source == sources.end() ? "default" : source->second) +
            "\n";
  };
  for (std::size_t i = 0; i < std::size(table); ++i) {
    const ConfigInfo& info = table[i];
    const std::string here = info.key.find('.') == info.key.npos ? "" : std::string(section(info.key));
    if (here != open && !here.empty()) text += here + ":\n";
    open = here;
    line(info.key, value_text(*this, info));
    const bool last = i + 1 == std::size(table) || section(table[i + 1].key) != section(info.key);
    for (const ConfigChoice& choice : choices)
      if (last && choice.section == open)
        for (const auto& [key, value] : chosen_options(*this, choice)) line(open + "." + key, value);
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
  for (const ConfigChoice& choice : choices) {
    text +=
        "\n" + std::string(choice.section) + ".name, and its options as " + std::string(choice.section) + ".OPTION:\n";
    for (const ChoiceInfo& one : choice.table()) {
      text += "  " + padded(std::string(one.name), 26) + std::string(one.meaning) + "\n";
      for (const OptionInfo& option : one.options)
        text += "    " + padded(std::string(option.key), 24) + std::string(option.meaning) + " [" +
                std::string(option.value) + "]\n";
    }
  }
  return text;
}

std::string config_markdown() {
  const Config defaults;
  std::string text = "| key | default | unit | meaning | other names |\n|---|---|---|---|---|\n";
  for (const ConfigInfo& info : table) {
    std::string allowed;
    for (const char c : info.allowed) allowed += c == '|' ? std::string(", ") : std::string(1, c);
    text += "| `" + std::string(info.key) + "` | " + value_text(defaults, info) + " | " + std::string(info.unit) +
            " | " + std::string(info.meaning) + (allowed.empty() ? "" : ": " + allowed) + " | " +
            with_commas(info.aliases) + " |\n";
  }
  for (const ConfigChoice& choice : choices) {
    text += "\n| `" + std::string(choice.section) +
            ".name` | | options, with what holds unless they are given |\n|---|---|---|\n";
    for (const ChoiceInfo& one : choice.table()) {
      text += "| `" + std::string(one.name) + "` | " + std::string(one.meaning) + " | ";
      for (std::size_t i = 0; i < one.options.size(); ++i)
        text +=
            (i == 0 ? "`" : ", `") + std::string(one.options[i].key) + "=" + std::string(one.options[i].value) + "`";
      text += " |\n";
    }
  }
  text += "\n| other name | of |\n|---|---|\n";
  for (const OptionAlias& each : aliases)
    text += "| `" + std::string(each.alias) + "` | `" + std::string(each.key) + "` |\n";
  return text;
}

}  // namespace tutti::engine
