#include "engine/report/run_log.hpp"

#include <chrono>
#include <cstdio>
#include <nlohmann/json.hpp>
#include <utility>

#include "tutti/status.hpp"

namespace tutti::engine {
namespace {

using Json = nlohmann::ordered_json;  // writes a number that is not finite as null

void put(std::ofstream& out, const std::filesystem::path& file, const std::string& text) {
  out << text << std::flush;
  if (!out) throw Error(Code::resource, file.string() + ": cannot be written: see whether the disk is full");
}

double now() { return std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count(); }

void add(Json& line, const Metrics& metrics) {
  for (const auto& [name, value] : metrics) line[name] = value;
}

}  // namespace

LossFile::LossFile(std::filesystem::path file, std::span<const double> done)
    : file_(std::move(file)), out_(file_, std::ios::trunc) {
  put(out_, file_, "step,loss\n");
  add(done);
}

void LossFile::add(std::span<const double> losses) {
  std::string text;
  char line[64];
  for (const double loss : losses) {
    std::snprintf(line, sizeof line, "%zu,%.17g\n", next_++, loss);
    text += line;
  }
  put(out_, file_, text);
}

RunLog::RunLog(std::filesystem::path file, std::size_t step) : file_(std::move(file)), out_(file_, std::ios::app) {
  write(Json({{"begin", step}, {"time", now()}}).dump() + "\n");
}

void RunLog::write(const std::string& lines) { put(out_, file_, lines); }

void RunLog::losses(std::size_t first, std::span<const double> losses) {
  std::string lines;
  for (const double loss : losses) lines += Json({{"step", first++}, {"loss", loss}}).dump() + "\n";
  write(lines);
}

void RunLog::validation(const Validation& found) {
  Json line = {{"validation", found.step}, {"epoch", found.epoch}, {"time", now()}, {"loss", found.loss}};
  add(line, found.metrics);
  write(line.dump() + "\n");
}

void RunLog::epoch(const EpochResult& result) {
  Json line = {{"epoch", result.epoch},
               {"step", result.step},
               {"time", now()},
               {"learning_rate", result.learning_rate},
               {"train_loss", result.train_loss}};
  if (result.validated) {
    line["held_out_loss"] = result.test_loss;
    add(line, result.metrics);
  }
  line["samples_per_second"] = result.samples_per_second;
  line["seconds"] = result.phases.wall();
  write(line.dump() + "\n");
}

}  // namespace tutti::engine
