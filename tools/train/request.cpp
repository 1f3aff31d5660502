#include "tools/train/request.hpp"

#include <fmt/core.h>

#include <filesystem>
#include <map>

#include "tools/options.hpp"
#include "tools/train/folder.hpp"
#include "tutti/status.hpp"

namespace tutti::tools {
namespace {

namespace fs = std::filesystem;

std::vector<fs::path> config_folders() {
  std::error_code ignored;
  const fs::path self = fs::read_symlink("/proc/self/exe", ignored);
  return {self.parent_path().parent_path() / "share" / "tutti" / "configs"};
}

/// Applies key=value or, as in mpi_learn, a model's file and lists of files to train and to validate with. Returns true
/// for such files.
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
  throw Error(Code::invalid, "which run is to be resumed? Say run=DIR" +
                                 (newest.empty() ? "" : "; the newest one in runs/ is run=" + newest));
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

TrainRequest read_request(const std::vector<std::string>& arguments) {
  TrainRequest request;
  std::string name, data, device, keys;
  bool print = false, resume = false;
  std::vector<std::string> words;
  CLI::App app("Trains a network: tutti train -np 4 --config lenet-digits data=DIR", "tutti train");
  app.add_option("--np", request.ranks,
                 "start so many ranks on this host; without it a launcher does, or it is one rank")
      ->check(CLI::Range(1, 1024));
  app.add_option("--config", name, "a YAML file, or the name of one that came with tutti");
  app.add_option("--data", data, "the same as data=DIR");
  app.add_option("--device", device, "the same as device=auto, cpu or cuda");
  app.add_option("settings", words, "key=value, over those of the file");
  app.add_option("--help-config", keys,
                 "the keys: meaning, choices, default, other names; `markdown`: as the book has them")
      ->expected(0, 1)
      ->default_str("text")
      ->check(CLI::IsMember({"text", "markdown"}));
  app.add_option("--join", request.join,
                 "work for the run that goes on in this folder, which was started with strategy.joins=N; takes its "
                 "configuration from there");
  app.add_flag("--resume", resume, "go on from the last checkpoint in run=DIR: the same as resume=true");
  app.add_flag("--dry-run", request.dry_run,
               "start nothing, but say what the ranks of -np would do: batch, bytes, memory, and the expected time");
  app.add_flag("--explain-strategy", request.explain,
               "start nothing, but say what the strategy stands for, and its bytes and memory on the ranks of -np");
  app.add_option("--link", request.link, "of --dry-run: latency and bandwidth between ranks, as 20us,10gbit");
  app.add_option("--net", request.net,
                 "give each rank's link this rate and one-way latency, for experiments: 50mbit,20ms");
  app.add_flag("--print-config", print, "the whole configuration that would be used, and where each value comes from");
  std::map<std::string, std::string> flags;  // each key is also a flag: --optimizer.lr 0.1
  for (const std::string& key : engine::config_names())
    if (!app.get_option_no_throw("--" + key)) app.add_option("--" + key, flags[key])->group("");
  app.footer(engine::config_help());
  parse(app, arguments);
  if (!keys.empty()) show(keys == "markdown" ? engine::config_markdown() : engine::config_help());
  engine::Config& config = request.config;
  if (!request.join.empty()) return join_request(std::move(request), arguments);
  if (!name.empty()) config.read(engine::find_config(name, config_folders()));
  const bool as_mpi_learn = take_words(config, words);
  for (const auto& [key, value] : flags)  // whose --batch is each worker's
    if (app.count("--" + key) > 0)
      config.set(as_mpi_learn && key == "batch" ? "batch.per_rank" : key, value, "--" + key);
  if (!data.empty()) config.set("data.source", data, "--data");
  if (!device.empty()) config.set("device", device, "--device");
  if (resume) config.set("checkpoint.resume", "true", "--resume");
  if (print) show(config.resolved());
  if (config.run.empty()) {
    if (config.checkpoint.resume) refuse_resume();
    config.run = new_run_folder(name.empty() ? config.model.name : name);
  }
  config.check();
  return request;
}

}  // namespace tutti::tools
