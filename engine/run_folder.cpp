#include "engine/run_folder.hpp"

#include <sys/utsname.h>

#include <cstdio>
#include <fstream>
#include <system_error>

#include "engine/checkpoint/atomic_file.hpp"
#include "transports/core/host.hpp"
#include "transports/core/status.hpp"

namespace tutti::engine {
namespace {

namespace fs = std::filesystem;

void write(const fs::path& file, const std::string& text) {
  AtomicFile out(file);
  out.write(text);
  out.commit();
}

std::string environment(int ranks) {
  struct utsname system = {};
  ::uname(&system);
  return "ranks: " + std::to_string(ranks) + "\nhost of rank 0: " + host_name() +
         "\ncores: " + std::to_string(usable_cores()) + "\nsystem: " + system.sysname + " " + system.release + " " +
         system.machine + "\n";
}

std::string number(double value) {
  char text[32];
  std::snprintf(text, sizeof text, "%.9g", value);
  return text;
}

std::string head_of(const EpochResult& result) {
  std::string text = "epoch,learning_rate,train_loss,held_out_loss";
  for (const auto& [name, value] : result.metrics) text += "," + name;
  return text + ",samples_per_second,communication\n";
}

std::string line_of(const EpochResult& result) {
  std::string text = std::to_string(result.epoch);
  for (const double value : {result.learning_rate, result.train_loss, result.test_loss}) text += "," + number(value);
  for (const auto& [name, value] : result.metrics) text += "," + number(value);
  return text + "," + number(result.samples_per_second) + "," + number(result.communication) + "\n";
}

}  // namespace

fs::path checkpoint_folder(const Config& config) { return fs::path(config.run) / "checkpoints"; }

RunFolder::RunFolder(const Config& config, int ranks, std::span<const EpochResult> done)
    : folder_(config.run), metrics_(folder_ / "metrics.csv") {
  std::error_code failed;
  fs::create_directories(folder_, failed);
  if (failed) throw Error(Code::resource, "run=" + config.run + ": cannot be made: " + failed.message());
  if (!config.checkpoint.resume && (fs::exists(metrics_) || fs::exists(checkpoint_folder(config))))
    throw Error(Code::invalid,
                "run=" + config.run + " has a run in it already: say --resume to go on, or name another folder");
  write(folder_ / "config.yaml", config.resolved());
  write(folder_ / "environment.txt", environment(ranks));
  fs::remove(metrics_, failed);
  for (const EpochResult& each : done) epoch(each);
}

void RunFolder::epoch(const EpochResult& result) {
  std::error_code none;
  const bool first = !fs::exists(metrics_, none);
  std::ofstream out(metrics_, std::ios::app);
  out << (first ? head_of(result) : "") << line_of(result) << std::flush;
  if (!out) throw Error(Code::resource, metrics_.string() + ": cannot be written");
}

}  // namespace tutti::engine
