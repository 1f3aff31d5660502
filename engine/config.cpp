// One table drives the file, the command line and the help text.
#include "engine/config.hpp"

#include <yaml-cpp/yaml.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <set>
#include <vector>

#include "engine/schedules.hpp"
#include "transports/core/settings.hpp"

namespace tutti::engine {
namespace {

constexpr ConfigInfo table[] = {
    {"model", "the network", &Config::model, "lenet|mlp"},
    {"data", "a folder with MNIST's four IDX files, or random:CxHxW", &Config::data},
    {"dtype", "element type of the network", &Config::dtype, "float32|float64"},
    {"device", "where to train: auto takes GPUs if every rank has one", &Config::device, "auto|cpu|cuda"},
    {"hidden", "mlp: sizes of the hidden layers, comma-separated", &Config::hidden},
    {"schedule", "learning rate after the warm-up", &Config::schedule, "cosine|constant"},
    {"buffers", "running statistics after an epoch: rank 0's, their mean, or each rank's own", &Config::buffers,
     "broadcast|average|local"},
    {"progress", "the live line: auto shows it on a terminal only", &Config::progress, "auto|on|off"},
    {"loss_file", "writes step,loss of every step here", &Config::loss_file},
    {"seed", "of initialisation, order and shifts", &Config::seed},
    {"epochs", "passes over the data", &Config::epochs, {}, 1},
    {"steps", "end after so many steps; 0: when the epochs are done", &Config::steps},
    {"batch", "samples per step, of all ranks together", &Config::batch, {}, 1},
    {"shift", "move each training image by up to so many pixels", &Config::shift},
    {"random_samples", "samples of random:CxHxW", &Config::random_samples, {}, 1},
    {"prefetch", "batches prepared ahead", &Config::prefetch, {}, 1},
    {"threads", "compute threads of each rank", &Config::threads, {}, 1},
    {"bucket_bytes", "gradients travel in buckets of at most this", &Config::bucket_bytes, {}, 1},
    {"first_bucket_bytes", "the first bucket, which is ready first", &Config::first_bucket_bytes, {}, 1},
    {"lr", "learning rate", &Config::lr},
    {"momentum", "of SGD", &Config::momentum},
    {"weight_decay", "of SGD", &Config::weight_decay},
    {"warmup", "epochs of linear warm-up", &Config::warmup},
    {"target", "exit with 1 unless the held-out accuracy reaches this percentage", &Config::target},
};

[[noreturn]] void refuse(const std::string& text) { throw Error(Code::invalid, text); }

std::string in_quotes(std::string_view text) { return "'" + std::string(text) + "'"; }

bool one_of(std::string_view value, std::string_view choices) {
  for (std::size_t begin = 0; begin <= choices.size();) {
    const std::size_t end = std::min(choices.find('|', begin), choices.size());
    if (choices.substr(begin, end - begin) == value) return true;
    begin = end + 1;
  }
  return false;
}

void assign(std::string& into, const ConfigInfo& info, std::string_view value) {
  if (!info.allowed.empty() && !one_of(value, info.allowed)) {
    std::string choices(info.allowed);
    for (std::size_t at = 0; (at = choices.find('|', at)) != choices.npos; at += 4) choices.replace(at, 1, " or ");
    refuse(std::string(info.key) + "=" + std::string(value) + ": expected " + choices);
  }
  into = value;
}

void assign(double& into, const ConfigInfo& info, std::string_view value) {
  double number = 0;
  const auto [rest, error] = std::from_chars(value.data(), value.data() + value.size(), number);
  if (error != std::errc() || rest != value.data() + value.size() || !std::isfinite(number) || number < info.least)
    refuse(std::string(info.key) + "=" + std::string(value) + ": expected a number from " +
           std::to_string(static_cast<int>(info.least)) + " up");
  into = number;
}

void assign(std::int64_t& into, const ConfigInfo& info, std::string_view value) {
  std::int64_t number = 0;
  const char* const end = value.data() + value.size();
  auto [rest, error] = std::from_chars(value.data(), end, number);
  constexpr std::string_view units = "KMG";
  if (error == std::errc() && rest + 1 == end && info.key.ends_with("bytes"))
    if (const auto unit = units.find(*rest); unit != units.npos) {
      number <<= 10 * (unit + 1);
      ++rest;
    }
  if (error != std::errc() || rest != end || number < static_cast<std::int64_t>(info.least) || number > (1LL << 48))
    refuse(std::string(info.key) + "=" + std::string(value) + ": expected a whole number from " +
           std::to_string(static_cast<int>(info.least)) + " up");
  into = number;
}

const ConfigInfo& lookup(std::string_view key) {
  std::vector<std::string_view> keys;
  for (const ConfigInfo& info : table) {
    if (info.key == key) return info;
    keys.push_back(info.key);
  }
  const std::string_view near = nearest(key, keys);
  refuse("no config key " + in_quotes(key) +
         (near.empty() ? "; `tutti train --help` lists them" : "; did you mean " + in_quotes(near) + "?"));
}

}  // namespace

std::span<const ConfigInfo> config_table() noexcept { return table; }

void Config::set(std::string_view key, std::string_view value) {
  const ConfigInfo& info = lookup(key);
  std::visit([&](auto member) { assign(this->*member, info, value); }, info.member);
}

void Config::set(std::string_view assignment) {
  const std::size_t equals = assignment.find('=');
  if (equals == assignment.npos || equals == 0)
    refuse(in_quotes(assignment) + " is not a setting: expected key=value, as in epochs=5");
  set(assignment.substr(0, equals), assignment.substr(equals + 1));
}

void Config::read(const std::filesystem::path& file) {
  const auto where = [&](const YAML::Mark& mark) { return file.string() + ":" + std::to_string(mark.line + 1) + ": "; };
  try {
    const YAML::Node root = YAML::LoadFile(file.string());
    if (root.IsNull()) return;
    if (!root.IsMap()) refuse(file.string() + ": expected lines of `key: value`");
    std::set<std::string> seen;
    for (const auto& entry : root) {
      const std::string here = where(entry.first.Mark());
      if (!entry.first.IsScalar() || !entry.second.IsScalar()) refuse(here + "expected `key: value`, without nesting");
      const auto key = entry.first.as<std::string>();
      if (!seen.insert(key).second) refuse(here + in_quotes(key) + " is set twice");
      try {
        set(key, entry.second.as<std::string>());
      } catch (const Error& error) {
        refuse(here + error.what());
      }
    }
  } catch (const YAML::BadFile&) {
    refuse(file.string() + ": cannot be read");
  } catch (const YAML::Exception& error) {
    refuse(where(error.mark) + error.msg);
  }
}

void Config::check() const {
  if (data.empty())
    refuse(
        "no data: say data=DIR, a folder with MNIST's four IDX files (`tutti data optdigits DIR` makes one), or "
        "data=random:1x28x28");
  if (warmup > static_cast<double>(epochs)) refuse("warmup is longer than epochs: set warmup= to at most epochs");
  if (momentum >= 1) refuse("momentum must be below 1");
}

std::filesystem::path find_config(const std::string& name, std::span<const std::filesystem::path> folders) {
  namespace fs = std::filesystem;
  if (fs::is_regular_file(name)) return name;
  std::set<std::string> known;
  for (const fs::path& folder : folders) {
    std::error_code ignored;
    for (const auto& entry : fs::directory_iterator(folder, ignored))
      if (entry.path().extension() == ".yaml") {
        known.insert(entry.path().stem());
        if (entry.path().stem() == name || entry.path().filename() == name) return entry.path();
      }
  }
  std::string list;
  for (const std::string& each : known) list += (list.empty() ? "" : ", ") + each;
  refuse("no config " + in_quotes(name) + ": expected a YAML file" + (list.empty() ? "" : " or one of " + list));
}

double learning_rate(const Config& config, std::size_t step, std::size_t steps_per_epoch, std::size_t total_steps) {
  const Schedule schedule({.name = config.schedule, .lr = config.lr, .warmup = config.warmup});
  return schedule.rate({.step = step, .steps_per_epoch = steps_per_epoch, .total_steps = total_steps});
}

}  // namespace tutti::engine
