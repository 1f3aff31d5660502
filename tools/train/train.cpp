// tutti-train: trains a network that a configuration names, on all ranks that the launcher started.
#include <fmt/core.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <functional>
#include <limits>

#include "collectives/communicator.hpp"
#include "engine/data/sampler.hpp"
#include "engine/trainer.hpp"
#include "tools/options.hpp"

namespace {

namespace fs = std::filesystem;
using tutti::Code;
using tutti::Communicator;
using tutti::Error;
namespace engine = tutti::engine;

constexpr int exit_failure = 1, exit_usage = 2;

/// What every rank reads for itself: the same words and the same files.
struct Job {
  engine::Config config;
  engine::DataSplit data;
  engine::Network network;
};

std::vector<fs::path> config_folders() {
  std::error_code ignored;
  const fs::path self = fs::read_symlink("/proc/self/exe", ignored);
  return {self.parent_path().parent_path() / "share" / "tutti" / "configs"};
}

std::string key_help() {
  std::string text = "Keys, for the file and for key=value:\n";
  for (const auto& info : engine::config_table())
    text += fmt::format("  {:<20}{}{}\n", info.key, info.meaning,
                        info.allowed.empty() ? "" : fmt::format(" ({})", info.allowed));
  return text;
}

engine::Config read_config(const std::vector<std::string>& arguments) {
  std::string name, data, device;
  std::vector<std::string> words;
  CLI::App app("Trains a network on all ranks: tutti run -np 4 tutti train --config lenet-digits data=DIR",
               "tutti train");
  app.add_option("--config", name, "a YAML file, or the name of one that came with tutti");
  app.add_option("--data", data, "the same as data=DIR");
  app.add_option("--device", device, "the same as device=auto, cpu or cuda");
  app.add_option("settings", words, "key=value, over those of the file");
  app.footer(key_help());
  tutti::tools::parse(app, arguments);
  engine::Config config;
  if (!name.empty()) config.read(engine::find_config(name, config_folders()));
  for (const std::string& word : words) config.set(word);
  if (!data.empty()) config.set("data", data);
  if (!device.empty()) config.set("device", device);
  config.check();
  return config;
}

/// Throws Error{invalid} for whatever the user can put right.
Job prepare(const std::vector<std::string>& arguments, const Communicator& world) {
  Job job{read_config(arguments), {}, {}};
  job.data = engine::load(job.config.data, static_cast<std::size_t>(job.config.random_samples),
                          static_cast<std::uint64_t>(job.config.seed));
  engine::Sampler({.samples = job.data.train->size(),
                   .batch = static_cast<std::size_t>(job.config.batch),
                   .rank = world.rank(),
                   .size = world.size()});
  if (!job.config.loss_file.empty() && world.rank() == 0) {
    const fs::path folder = fs::absolute(job.config.loss_file).parent_path();
    if (!fs::is_directory(folder)) throw Error(Code::invalid, "loss_file: there is no folder " + folder.string());
  }
  job.network = engine::make_network(job.config, job.data.image(), job.data.classes);
  return job;
}

/// Runs `step` on every rank; false if it failed anywhere, which the first rank where it did has then said.
bool agreed(Communicator& world, const std::function<void()>& step) {
  std::string problem;
  try {
    step();
  } catch (const Error& error) {
    if (error.code() != Code::invalid && error.code() != Code::resource) throw;
    problem = error.what();
  }
  const std::int32_t nobody = std::numeric_limits<std::int32_t>::max();
  const std::int32_t first = world.allreduce(problem.empty() ? nobody : world.rank(), tutti::min).wait();
  if (first == nobody) return true;
  if (first == world.rank()) fmt::print(stderr, "tutti train: {}\n", problem);
  std::fflush(stderr);
  world.barrier().wait();  // the launcher ends the job with the first rank that exits: after the line is out
  return false;
}

void write_losses(const fs::path& file, const std::vector<double>& losses) {
  const fs::path partial = file.string() + ".tmp";
  std::ofstream out(partial);
  out << "step,loss\n";
  for (std::size_t i = 0; i < losses.size(); ++i) out << fmt::format("{},{:.17g}\n", i, losses[i]);
  out.close();
  if (!out) throw Error(Code::resource, partial.string() + ": cannot be written");
  fs::rename(partial, file);
}

/// `differ`: why the replicas cannot be said to be equal; empty: they are.
int finish(const Job& job, const engine::TrainResult& result, const std::string& differ, const Communicator& world,
           double seconds) {
  const double accuracy = 100 * result.epochs.back().accuracy;
  const bool reached = accuracy >= job.config.target;
  if (world.rank() == 0) {
    if (!job.config.loss_file.empty()) write_losses(job.config.loss_file, result.losses);
    const std::string ranks = world.size() == 1 ? "the one rank" : fmt::format("all {} ranks", world.size());
    fmt::print("held-out accuracy {:.2f} % after {} steps in {:.1f} s{}\n", accuracy, result.losses.size(), seconds,
               differ.empty() ? "; parameters are bitwise equal on " + ranks : "");
    if (!differ.empty()) fmt::print(stderr, "tutti train: {}\n", differ);
    if (!reached) fmt::print(stderr, "tutti train: target={} % was not reached\n", job.config.target);
    std::fflush(stdout);
  }
  return reached && differ.empty() ? 0 : exit_failure;
}

int run(const std::vector<std::string>& arguments, Communicator& world) {
  const auto asks = [](const std::string& word) { return word == "-h" || word == "--help"; };
  if (world.rank() != 0 && std::any_of(arguments.begin(), arguments.end(), asks)) return 0;
  Job job;
  if (!agreed(world, [&] { job = prepare(arguments, world); })) return exit_usage;
  if (!agreed(world, [&] { engine::settle(job.network, job.config, world); })) return exit_usage;
  if (world.rank() == 0) fmt::print("{}\n", job.data.description);
  const auto begin = std::chrono::steady_clock::now();
  engine::TrainResult result;
  std::string differ;
  try {
    result = engine::train(job.config, world, job.network, job.data);
  } catch (const engine::ReplicaError& error) {  // the training is done all the same: its losses are wanted
    result = error.result;
    differ = error.what();
  }
  const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  const int code = finish(job, result, differ, world, seconds);
  world.barrier().wait();  // nobody leaves while rank 0 still writes
  return code;
}

}  // namespace

int main(int argc, char** argv) {
  int rank = 0;
  try {
    Communicator world = Communicator::from_env();
    rank = world.rank();
    return run({argv + 1, argv + argc}, world);
  } catch (const tutti::tools::Finished& finished) {
    return finished.exit_code;
  } catch (const Error& error) {
    fmt::print(stderr, "tutti train: rank {}: {}\n", rank, error.what());
    return error.code() == Code::invalid ? exit_usage : exit_failure;
  } catch (const std::exception& error) {
    fmt::print(stderr, "tutti train: rank {}: {}\n", rank, error.what());
    return exit_failure;
  }
}
