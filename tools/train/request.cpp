#include "tools/train/request.hpp"
#include "engine/data/formats/source.hpp"

#include <fmt/core.h>

#include <algorithm>
#include <filesystem>
#include <map>

#include "engine/config/tables.hpp"
#include "engine/loop/run_config.hpp"
#include "tools/options.hpp"
#include "tools/shell.hpp"
#include "tools/train/folder.hpp"
#include "tools/train/judge.hpp"
#include "tutti/status.hpp"

namespace tutti::tools {
namespace {

namespace fs = std::filesystem;

std::vector<fs::path> config_folders() {
  std::error_code ignored;
  const fs::path self = fs::read_symlink("/proc/self/exe", ignored);
  return {self.parent_path().parent_path() / "share" / "tutti" / "configs"};
}

/// Applies words key=value. Words may also be files, as in mpi_learn: a model's file, and lists of files for training
/// and for validation. Returns true if they are such files.
bool take_words(engine::Config& config, const std::vector<std::string>& words) {
  std::vector<std::string> files;
  for (const std::string& word : words) {
    if (word.find('=') == word.npos && fs::is_regular_file(word))
      files.push_back(word);
    else
      config.set(word);
  }
  if (files.empty()) return false;
  if (files.size() != 3)
    throw Error(Code::invalid,
                "expected key=value, or three files: a model, a list of files to train with, and one to validate with");
  config.set("model.name", files[0], "the command line");
  config.set("data.source", "hdf5:" + files[1] + "," + files[2], "the command line");
  return true;
}

[[noreturn]] void refuse_resume() {
  const std::string newest = newest_run_folder();
  throw Error(Code::invalid, "which run is to be resumed? Say --resume DIR" +
                                 (newest.empty() ? "" : "; the newest one in runs/ is " + shell_path(newest)));
}

/// What the command line says about resuming.
struct Resume {
  bool asked = false;
  std::string folder;  ///< the folder in --resume DIR; empty: run= names the folder
};

/// Throws if the words name another folder than --resume.
void check_folder(const Resume& resume, const std::vector<std::string>& words) {
  for (const std::string& word : words)
    for (const std::string_view key : {"run=", "record_dir="})
      if (!resume.folder.empty() && word.starts_with(key) && word.substr(key.size()) != resume.folder)
        throw Error(Code::invalid, "--resume " + resume.folder + " and " + word + " are two folders; leave one out");
}

/// Removes --resume and its folder from the arguments, and returns them. The next word is the folder if a folder with
/// this name exists, or if the word is neither key=value nor a file.
Resume take_resume(std::vector<std::string>& arguments) {
  constexpr std::string_view flag = "--resume", joined = "--resume=";
  Resume found;
  std::vector<std::string> rest;
  for (std::size_t i = 0; i < arguments.size(); ++i) {
    const std::string& word = arguments[i];
    if (word != flag && !word.starts_with(joined)) {
      rest.push_back(word);
      continue;
    }
    found.asked = true;
    std::string folder = word.substr(std::min(word.size(), joined.size()));
    if (word == flag && i + 1 < arguments.size()) {
      const std::string& next = arguments[i + 1];
      const bool is_other =
          next.empty() || next.starts_with('-') || next.find('=') != next.npos || fs::is_regular_file(next);
      if (fs::is_directory(next) || !is_other) folder = arguments[++i];
    }
    if (!found.folder.empty() && !folder.empty() && folder != found.folder)
      throw Error(Code::invalid, "--resume names two folders, " + found.folder + " and " + folder + "; leave one out");
    if (!folder.empty()) found.folder = folder;
  }
  arguments = std::move(rest);
  return found;
}

/// Throws if the run can be neither resumed nor begun. A run that was killed before its first checkpoint begins anew.
void check_resume(const engine::Config& config, const Resume& resume) {
  if (engine::has_checkpoint(config.run) || fs::exists(fs::path(config.run) / "config.yaml")) return;
  if (!config.data.source.empty()) return;
  if (!resume.folder.empty())
    throw Error(Code::invalid, "--resume " + shell_path(config.run) + ": " +
                                   (fs::is_directory(config.run) ? "there is no run in it, as it has no config.yaml"
                                                                 : "there is no such folder"));
  throw Error(Code::invalid, "run=" + config.run +
                                 " has no checkpoint to go on from, and no config.yaml that says what to train; to "
                                 "begin, say data=DIR and what else the run needs");
}

/// Returns the configuration to which the command line's keys apply: that of the resumed run, overridden by the file
/// `name`.
engine::Config base_of(const std::string& name, const engine::Config& given) {
  engine::Config config;
  if (given.checkpoint.resumes() && given.has_folder() && fs::exists(fs::path(given.run) / "config.yaml"))
    engine::read_run(config, given.run);
  config.run.clear();
  config.sources.erase("run");
  if (name.empty()) return config;
  const engine::Config before = config;
  config.read(engine::find_config(name, config_folders()));
  engine::forget_options_of_others(config, before);
  return config;
}

/// Reads the configuration of the run that is joined.
TrainRequest join_request(TrainRequest request, const std::vector<std::string>& arguments) {
  const fs::path file = fs::path(request.join) / "config.yaml";
  if (arguments.size() > (arguments.front().starts_with("--join=") ? 1 : 2))
    throw Error(Code::invalid, "--join takes all from the run that is joined: say `tutti train --join " + request.join +
                                   "` and nothing else");
  if (!fs::exists(file))
    throw Error(Code::invalid, "--join " + request.join + ": there is no run in it, as it has no config.yaml");
  request.config.read(file);
  request.config.run = request.join;
  request.config.check();
  return request;
}

}  // namespace

void show(const std::string& text) {
  fmt::print("{}", text);
  throw Finished{0};
}

namespace {

/// The other contents of the command line: the sources of the configuration, and requests that only print.
struct Line {
  std::string name, data, device, help, shown, validated, predicted, to;
  bool print = false;
  std::vector<std::string> words;
  std::map<std::string, std::string> flags;  ///< each key is also a flag: --optimizer.lr 0.1
  Resume resume;

  void add_to(CLI::App& app, TrainRequest& request);
  void apply(engine::Config& config) const;
};

void Line::add_to(CLI::App& app, TrainRequest& request) {
  app.add_option("--np", request.ranks,
                 "start so many ranks on this host; without it a launcher does, or it is one rank")
      ->check(CLI::Range(1, 1024));
  app.add_option("--config", name, "a YAML file, or the name of one that came with tutti");
  app.add_option("--data", data, "the same as data=DIR");
  app.add_option("--device", device, "the same as device=auto, cpu or cuda");
  app.add_option("settings", words, "key=value, over those of the file");
  app.add_option("--help-config", help,
                 "the keys: meaning, choices, default, other names; `markdown`: as the book has them")
      ->expected(0, 1)
      ->default_str("text")
      ->check(CLI::IsMember({"text", "markdown"}));
  app.add_option("--join", request.join,
                 "work for the run that goes on in this folder, which was started with strategy.joins=N; takes its "
                 "configuration from there");
  app.add_option(
         "--resume", shown,
         "go on from the last checkpoint in DIR, on as many ranks and with the keys of DIR/config.yaml, but for "
         "those that are given; without DIR in that of run=DIR, which begins if it has no checkpoint")
      ->type_name("[DIR]");
  auto* const validate =
      app.add_option("--validate", validated,
                     "train nothing, but judge the network of the run in DIR, or of one of its checkpoints, with the "
                     "held-out samples of its data, or of data=...")
          ->type_name("DIR");
  app.add_option("--predict", predicted, "the same, but write what the network says of each of them")
      ->type_name("DIR")
      ->excludes(validate);
  app.add_option("--to", to,
                 "of --predict: the file, a table, or tensors if it ends in .safetensors [predictions.csv]");
  app.add_flag("--dry-run", request.dry_run,
               "start nothing, but say what the ranks of -np would do: batch, bytes, memory, and the expected time");
  app.add_flag("--explain-strategy", request.explain,
               "start nothing, but say what the strategy stands for, and its bytes and memory on the ranks of -np");
  app.add_option("--link", request.link, "of --dry-run: latency and bandwidth between ranks, as 20us,10gbit");
  app.add_option("--net", request.net,
                 "give each rank's link this rate and one-way latency, for experiments: 50mbit,20ms");
  app.add_flag("--print-config", print, "the whole configuration that would be used, and where each value comes from");
  for (const std::string& key : engine::config_names())
    if (!app.get_option_no_throw("--" + key)) app.add_option("--" + key, flags[key])->group("");
  app.footer(engine::config_help());
}

void Line::apply(engine::Config& config) const {
  const bool as_mpi_learn = take_words(config, words);
  for (const auto& [key, value] : flags)  // mpi_learn's --batch is that of each worker
    config.set(as_mpi_learn && key == "batch" ? "batch.per_rank" : key, value, "--" + key);
  const auto& options = config.strategy.options;
  const bool has_masters = options.contains("masters") || options.contains("processes");
  if (as_mpi_learn && has_masters && !config.sources.contains("strategy.name"))
    config.set("strategy.name", "downpour", "mpi_learn's default");
  if (!data.empty()) config.set("data.source", data, "--data");
  if (!device.empty()) config.set("device", device, "--device");
  if (resume.asked) config.set("checkpoint.resume", "true", "--resume");
  if (!resume.folder.empty()) config.set("run", resume.folder, "--resume");
}

/// Returns the configuration: that of the resumed run, overridden by the named file, overridden by the command line.
engine::Config configuration(const Line& line) {
  engine::Config given;
  line.apply(given);
  check_folder(line.resume, line.words);
  const engine::Config before = base_of(line.name, given);
  engine::Config config = before;
  line.apply(config);
  engine::forget_options_of_others(config, before);
  return config;
}

/// Renames flags that are spelled with `-` instead of `_`. For flags of other trainers, throws with the flag to use
/// instead.
void name_flags(const CLI::App& app, std::vector<std::string>& arguments) {
  const std::vector<std::string> names = engine::config_names();
  for (std::string& word : arguments) {
    if (!word.starts_with("--")) continue;
    const std::size_t end = std::min(word.find('='), word.size());
    const std::string name = word.substr(2, end - 2);
    if (app.get_option_no_throw("--" + name)) continue;
    const auto same = std::ranges::find_if(
        names, [&](const std::string& each) { return engine::plain_key(each) == engine::plain_key(name); });
    if (same != names.end())
      word.replace(2, end - 2, *same);
    else if (const std::string_view advice = engine::advice_for(name); !advice.empty())
      throw Error(Code::invalid, "no flag --" + name + ": here it is " + std::string(advice));
  }
}

}  // namespace

namespace {

/// Reads the configuration of the run whose network is evaluated; keys on the command line override it.
TrainRequest judge_request(const Line& line, TrainRequest request) {
  request.judged = line.validated.empty() ? line.predicted : line.validated;
  if (!line.predicted.empty()) request.predicted = line.to.empty() ? "predictions.csv" : line.to;
  if (line.predicted.empty() && !line.to.empty())
    throw Error(Code::invalid, "--to names the file of --predict: leave it out, or say --predict DIR");
  const fs::path folder = fs::path(request.predicted).parent_path();
  if (!folder.empty() && !fs::is_directory(folder))
    throw Error(Code::invalid, "--to: there is no folder " + folder.string());
  engine::Config config;
  engine::read_run(config, run_with(request.judged));
  line.apply(config);
  only_judge(config, request.judged);
  request.config = config;
  return request;
}

}  // namespace

TrainRequest read_request(const std::vector<std::string>& arguments) {
  TrainRequest request;
  Line line;
  std::vector<std::string> rest = arguments;
  line.resume = take_resume(rest);
  CLI::App app("Trains a network: tutti train -np 4 --config lenet-digits data=DIR", "tutti train");
  line.add_to(app, request);
  name_flags(app, rest);
  parse(app, rest);
  std::erase_if(line.flags, [&](const auto& flag) { return app.count("--" + flag.first) == 0; });
  if (!line.help.empty()) show(line.help == "markdown" ? engine::config_markdown() : engine::config_help());
  if (!request.join.empty()) return join_request(std::move(request), arguments);
  if (!line.validated.empty() || !line.predicted.empty()) return judge_request(line, std::move(request));
  engine::Config& config = request.config = configuration(line);
  if (line.print) show(config.resolved());
  if (config.run.empty()) {
    if (config.checkpoint.resumes()) refuse_resume();
    request.names_run = true;
    config.run = new_run_folder(line.name.empty() ? config.model.name : line.name);
  }
  if (config.checkpoint.resumes() && config.has_folder()) {
    check_resume(config, line.resume);
    request.ranks_before = engine::ranks_of_run(config.run);
  }
  config.check();
  return request;
}

engine::DataSplit data_of(const engine::Config& config) {
  const engine::ReadLimits limits{.max_pixels = static_cast<std::size_t>(config.data.max_pixels),
                                  .max_compression = static_cast<std::size_t>(config.data.max_compression),
                                  .external_files = config.data.external_files};
  return engine::load(config.data.source, static_cast<std::size_t>(config.data.samples),
                      static_cast<std::uint64_t>(config.seed), limits);
}

}  // namespace tutti::tools
