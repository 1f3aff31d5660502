// tutti-checkpoint: checks which checkpoints of a run are complete, and writes their networks for other programs.
#include <fmt/core.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <optional>

#include "engine/checkpoint/manifest.hpp"
#include "engine/checkpoint/saver.hpp"
#include "engine/checkpoint/shards.hpp"
#include "engine/checkpoint/state.hpp"
#include "engine/checkpoint/store.hpp"
#include "engine/models/names.hpp"
#include "tools/options.hpp"
#include "tutti/memory.hpp"

namespace {

namespace fs = std::filesystem;
using tutti::Code;
using tutti::Error;
namespace engine = tutti::engine;

constexpr int exit_failure = 1, exit_usage = 2;

/// The checkpoints that `folder` stands for: those of a run, those in a folder of checkpoints, or the folder itself.
struct Found {
  std::vector<fs::path> all;
  std::optional<fs::path> last, best;
};

Found checkpoints_in(const fs::path& folder) {
  if (!fs::is_directory(folder))
    throw Error(Code::invalid, folder.string() + ": there is no such folder; name a run's folder, or one checkpoint");
  const fs::path inner = folder / "checkpoints";
  if (fs::exists(folder / engine::RunState::file) || engine::checkpoint_step(folder.filename().string()))
    return {{folder}, {}, {}};
  const engine::CheckpointStore store(fs::is_directory(inner) ? inner : folder, 0, false);
  Found found{store.all(), {}, store.best()};
  if (found.all.empty())
    throw Error(Code::invalid, folder.string() +
                                   ": there is no checkpoint in it; name a run's folder, or one of its "
                                   "checkpoints, DIR/checkpoints/step-N");
  found.last = found.all.front();
  return found;
}

/// Prints a line for each checkpoint. Returns the exit code: 0 if no checkpoint is damaged.
int verify(const Found& found) {
  std::size_t damaged = 0;
  for (const fs::path& each : found.all) {
    const std::string fault = engine::fault_of(each, true);
    fmt::print("{}: {}\n", each.string(), fault.empty() ? "whole" : "damaged: " + fault);
    damaged += fault.empty() ? 0 : 1;
  }
  if (damaged == 0) return 0;
  fmt::print("{} of {} damaged; {}\n", damaged, found.all.size(),
             damaged < found.all.size() ? "--resume goes on from the first one above that is whole"
                                        : "there is none to go on from: begin anew in another folder");
  return exit_failure;
}

/// Returns the bytes of the regular files directly in a folder.
std::uint64_t bytes_in(const fs::path& folder) {
  std::uint64_t bytes = 0;
  std::error_code ignored;
  for (const auto& entry : fs::directory_iterator(folder, ignored))
    if (entry.is_regular_file(ignored)) bytes += entry.file_size(ignored);
  return bytes;
}

int list(const Found& found) {
  fmt::print("{:<12} {:>6} {:>6} {:>10}  {}\n", "checkpoint", "epoch", "ranks", "size", "");
  for (const fs::path& each : found.all) {
    const std::string fault = engine::fault_of(each, false);
    std::string epoch = "-", ranks = "-", about = each == found.last ? "last" : "";
    if (fault.empty()) {
      const auto state = engine::RunState::read(each / engine::RunState::file);
      epoch = std::to_string(state.epoch + 1);
      ranks = std::to_string(state.ranks);
    }
    if (each == found.best) about += about.empty() ? "best" : ", best";
    if (!fault.empty()) about += (about.empty() ? "damaged: " : ", damaged: ") + fault;
    fmt::print("{:<12} {:>6} {:>6} {:>10}  {}\n", each.filename().string(), epoch, ranks,
               tutti::size_text(bytes_in(each)), about);
  }
  return 0;
}

/// Returns the name of the network's file in a checkpoint: the average of its parameters if there is one.
std::string network_of(const fs::path& checkpoint) {
  return engine::has_arrays(checkpoint, "ema.safetensors") ? "ema.safetensors" : "model.safetensors";
}

/// Writes the network of the best checkpoint, or of the last one, as one file with another library's names.
int write_network(const Found& found, const std::string& names, const fs::path& to) {
  const fs::path checkpoint = found.best.value_or(found.all.front());
  const std::string file = network_of(checkpoint);
  const fs::path from = checkpoint / file;
  const auto metadata = engine::metadata_of(checkpoint, file);
  const auto found_model = metadata.find("model");
  const std::string model = found_model == metadata.end() ? std::string() : found_model->second;
  engine::Fields arrays = engine::arrays_of(checkpoint, file, true);
  if (names == "torchvision") {
    std::vector<std::string> own;
    for (const auto& [name, array] : arrays) own.push_back(name);
    const std::map<std::string, std::string> theirs = engine::torchvision_names(model, own);
    if (theirs.empty())
      throw Error(Code::invalid,
                  from.string() + " is of model=" + model + ", and torchvision has no such network: say --names tutti");
    engine::Fields renamed;
    for (const auto& [name, array] : arrays) renamed[theirs.at(name)] = array;
    arrays = std::move(renamed);
  }
  engine::write_arrays(to, arrays, {{"format", "pt"}, {"model", model}});
  fmt::print("{}: {} tensors of {}, with the names of {}{}\n", to.string(), arrays.size(), from.string(), names,
             names == "torchvision" && model == "googlenet"
                 ? "; torchvision has 3x3 filters where these are 5x5, so it takes all but branch3.1"
                 : "");
  return 0;
}

int run(const std::vector<std::string>& arguments) {
  std::string action, folder, names = "tutti", to;
  CLI::App app("Says which checkpoints of a run are whole: tutti checkpoint verify runs/NAME", "tutti checkpoint");
  app.add_option("ACTION", action,
                 "verify: compare all checksums, exit code 1 if any checkpoint is damaged; list: what is there, in the "
                 "order in which --resume tries it; export: write the network of the best checkpoint, or else of the "
                 "last one, as one safetensors file, also where it is in shards")
      ->required()
      ->check(CLI::IsMember({"verify", "list", "export"}));
  app.add_option("DIR", folder, "a run's folder, its folder of checkpoints, or one checkpoint")->required();
  app.add_option("--names", names, "of export: whose names the tensors have [tutti]")
      ->check(CLI::IsMember({"tutti", "torchvision"}));
  app.add_option("--to", to, "of export: the file [NAME.safetensors, where NAME is the run's folder]");
  tutti::tools::parse(app, arguments);
  fs::path named = fs::path(folder).lexically_normal();
  if (named.filename().empty()) named = named.parent_path();
  const Found found = checkpoints_in(named);
  if (action != "export") return action == "verify" ? verify(found) : list(found);
  return write_network(found, names, to.empty() ? fs::absolute(named).filename().string() + ".safetensors" : to);
}

}  // namespace

int main(int argc, char** argv) {
  tutti::tools::fill_standard_descriptors();
  try {
    return run({argv + 1, argv + argc});
  } catch (const tutti::tools::Finished& finished) {
    return finished.exit_code;
  } catch (const Error& error) {
    fmt::print(stderr, "tutti checkpoint: {}\n", error.what());
    return error.code() == Code::invalid ? exit_usage : exit_failure;
  } catch (const std::exception& error) {
    fmt::print(stderr, "tutti checkpoint: {}\n", error.what());
    return exit_failure;
  }
}
