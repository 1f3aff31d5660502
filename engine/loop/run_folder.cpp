#include "engine/loop/run_folder.hpp"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/utsname.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <nlohmann/json.hpp>
#include <system_error>

#include "engine/checkpoint/atomic_file.hpp"
#include "transports/core/descriptor.hpp"
#include "transports/core/host.hpp"
#include "transports/core/text_file.hpp"
#include "tutti/status.hpp"

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
  return "tutti: " TUTTI_VERSION "\nranks: " + std::to_string(ranks) + "\nhost of rank 0: " + host_name() +
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
  return text + ",samples_per_second,seconds,compute,communication,waiting,load,other,late_rank,waited_for_it\n";
}

std::string line_of(const EpochResult& result) {
  const auto held_out = [&](double value) { return "," + (result.validated ? number(value) : std::string()); };
  std::string text = std::to_string(result.epoch);
  for (const double value : {result.learning_rate, result.train_loss}) text += "," + number(value);
  text += held_out(result.test_loss);
  for (const auto& [name, value] : result.metrics) text += held_out(value);
  const PhaseTimes& spent = result.phases;
  for (const double value : {result.samples_per_second, spent.wall(), spent.compute, spent.communication, spent.waiting,
                             spent.load, spent.other})
    text += "," + number(value);
  const WaitedFor late = result.latest();
  return text + "," + std::to_string(late.rank) + "," + number(late.seconds) + "\n";
}

std::string head_of(const Validation& found) {
  std::string text = "step,epoch,held_out_loss";
  for (const auto& [name, value] : found.metrics) text += "," + name;
  return text + "\n";
}

std::string line_of(const Validation& found) {
  std::string text = std::to_string(found.step) + "," + number(found.epoch) + "," + number(found.loss);
  for (const auto& [name, value] : found.metrics) text += "," + number(value);
  return text + "\n";
}

/// The tags under which TensorBoard groups the values.
std::vector<std::pair<std::string, double>> scalars_of(const EpochResult& result) {
  const PhaseTimes& spent = result.phases;
  const double wall = spent.wall() > 0 ? spent.wall() : 1;
  std::vector<std::pair<std::string, double>> found = {{"epoch/loss", result.train_loss},
                                                       {"epoch/learning_rate", result.learning_rate},
                                                       {"epoch/samples_per_second", result.samples_per_second}};
  for (const auto& [name, seconds] : {std::pair("compute", spent.compute),
                                      {"communication", spent.communication},
                                      {"waiting", spent.waiting},
                                      {"load", spent.load},
                                      {"other", spent.other}})
    found.emplace_back(std::string("share/") + name, seconds / wall);
  return found;
}

/// The configuration of the whole job, with which the job can be started again or resumed.
Config of_job(Config config) {
  if (config.whole.batch > 0) config.batch.global = config.whole.batch;
  return config;
}

constexpr std::size_t longest_table = std::size_t{256} << 20;  // with a line for each epoch

/// The header and the lines of the first `epochs` epochs, of a file with the epoch first on each line.
std::string lines_up_to(const fs::path& file, std::size_t epochs) {
  std::string kept;
  for (const std::string& line : read_lines_if_any(file, longest_table))
    if (kept.empty() || std::strtoull(line.c_str(), nullptr, 10) <= epochs) kept += line + "\n";
  return kept;
}

void append(const fs::path& file, const std::string& head, const std::string& text) {
  std::error_code none;
  const bool first = !fs::exists(file, none);
  std::ofstream out(file, std::ios::app);
  out << (first ? head : "") << text << std::flush;
  if (!out) throw Error(Code::resource, file.string() + ": cannot be written: see whether the disk is full");
}

/// Appends a line for each result, in one write.
template <class Result>
void append_all(const fs::path& file, const std::vector<Result>& results) {
  std::string lines;
  for (const Result& each : results) lines += line_of(each);
  if (!results.empty()) append(file, head_of(results.front()), lines);
}

/// The history of a run: {"train_time": seconds, "exchanges": N, "exchanged_bytes": N, "history": {"0:0:RANK": lists by
/// epoch}, "args": the configuration by key}, like mpi_learn's <model>_<trial>_history.json. The lists of rank 0 are
/// loss, val_loss and val_<metric> of all ranks together, the learning rate and times. The ranks for which others
/// waited longest also have a list waited_for, with null for each epoch in which the rank was not among them.
/// `exchanged` is of this rank.
std::string history_json(const Config& config, const RunState& state, const ExchangeStats& exchanged, double seconds) {
  using Json = nlohmann::ordered_json;
  Json ranks = Json::object();
  for (std::size_t i = 0; i < state.epochs.size(); ++i)
    for (const WaitedFor& late : state.epochs[i].waited_for) {
      Json& list = ranks["0:0:" + std::to_string(late.rank)]["waited_for"];
      while (list.size() < i) list.push_back(nullptr);
      list.push_back(late.seconds);
    }
  for (Json& rank : ranks) {
    Json& list = rank["waited_for"];
    while (list.size() < state.epochs.size()) list.push_back(nullptr);
  }
  Json& lists = ranks["0:0:0"];
  for (const EpochResult& epoch : state.epochs) {
    lists["loss"].push_back(epoch.train_loss);
    lists["val_loss"].push_back(epoch.test_loss);
    for (const auto& [name, value] : epoch.metrics) lists["val_" + name].push_back(value);
    lists["lr"].push_back(epoch.learning_rate);
    lists["samples_per_second"].push_back(epoch.samples_per_second);
    lists["seconds"].push_back(epoch.phases.wall());
  }
  Json arguments = Json::object();
  for (const ConfigInfo& info : config_table()) arguments[std::string(info.key)] = value_text(config, info);
  const Json all = {{"train_time", seconds},
                    {"exchanges", exchanged.exchanges},
                    {"exchanged_bytes", exchanged.bytes},
                    {"history", ranks},
                    {"args", arguments}};
  return all.dump(1) + "\n";
}

}  // namespace

fs::path checkpoint_folder(const Config& config) { return fs::path(config.run) / "checkpoints"; }

RunFolder::RunFolder(const Config& config, int ranks, const RunState& done, bool goes_on)
    : config_(of_job(config)),
      folder_(config.run),
      metrics_(folder_ / "metrics.csv"),
      waiting_(folder_ / "waiting.csv"),
      validations_(folder_ / "validations.csv"),
      steps_(done.losses.size()) {
  std::error_code failed;
  fs::create_directories(folder_, failed);
  if (failed)
    throw Error(Code::resource, "run=" + config.run + ": cannot be made: " + failed.message() +
                                    "; name another folder, or say run=none");
  lock();
  if (!goes_on && (fs::exists(metrics_) || fs::exists(checkpoint_folder(config))))
    refuse("run=" + config.run + " has a run in it already: say --resume to go on, or name another folder");
  write(folder_ / "config.yaml", config_.resolved());
  write(folder_ / "environment.txt", environment(config.whole.processes > 0 ? config.whole.processes : ranks));
  fs::remove(metrics_, failed);
  append_all(metrics_, done.epochs);
  if (fs::remove(validations_, failed)) append_all(validations_, done.validations);
  if (fs::exists(waiting_)) write(waiting_, lines_up_to(waiting_, done.epochs.size()));
  events_ = std::make_unique<EventFile>(folder_);
  log_ = std::make_unique<RunLog>(folder_ / "log.jsonl", done.step);
  if (config.elastic.is_on() && steps_ > 0) {  // a rank that dies may know a step's loss and not have written it
    --steps_;
    losses(std::span(done.losses).last(1));
  }
}

RunFolder::~RunFolder() = default;

/// Locks the file `lock` of the folder while this object lives, and writes this process and its host into it. Does
/// nothing on a file system without locks.
void RunFolder::lock() {
  const fs::path file = folder_ / "lock";
  lock_ = std::make_unique<Descriptor>(::open(file.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0644));
  if (lock_->fd() < 0)
    throw Error(Code::resource, file.string() + ": " + std::strerror(errno) + "; name another folder by run=DIR");
  if (::flock(lock_->fd(), LOCK_EX | LOCK_NB) == 0) {
    const std::string holder = "process " + std::to_string(::getpid()) + " on host " + host_name() + "\n";
    if (::ftruncate(lock_->fd(), 0) == 0) static_cast<void>(::pwrite(lock_->fd(), holder.data(), holder.size(), 0) < 0);
  } else if (errno == EWOULDBLOCK) {
    const std::vector<std::string> holder = read_lines_if_any(file, 4096);
    refuse("run=" + config_.run + ": a run is going on in it (" + (holder.empty() ? "of another process" : holder[0]) +
           "): wait for its end, or name another folder");
  }
}

void RunFolder::write_metrics(const EpochResult& result) const { append(metrics_, head_of(result), line_of(result)); }

void RunFolder::history(const RunState& done, const ExchangeStats& exchanged) const {
  write(folder_ / "history.json",
        history_json(config_, done, exchanged, 1e-9 * static_cast<double>(steady_now() - began_)));
}

void RunFolder::ranks(double epochs, std::size_t step, int ranks) const {
  append(folder_ / "ranks.csv", "epoch,step,ranks\n",
         number(epochs) + "," + std::to_string(step) + "," + std::to_string(ranks) + "\n");
}

void RunFolder::trace(const std::string& json) const { write(folder_ / "trace.json", json); }

void RunFolder::validation(const Validation& found, bool listed) {
  std::vector<std::pair<std::string, double>> scalars = {{"held_out/loss", found.loss}};
  for (const auto& [name, value] : found.metrics) scalars.emplace_back("held_out/" + name, value);
  events_->add(found.step, scalars);
  log_->validation(found);
  if (listed) append(validations_, head_of(found), line_of(found));
}

void RunFolder::losses(std::span<const double> fresh) {
  events_->add(steps_, "loss", fresh);
  log_->losses(steps_, fresh);
  steps_ += fresh.size();
}

void RunFolder::epoch(const EpochResult& result, std::span<const PairWait> waits) {
  write_metrics(result);
  events_->add(result.step, scalars_of(result));
  log_->epoch(result);
  std::string lines;
  for (const PairWait& each : waits)
    lines += std::to_string(result.epoch) + "," + std::to_string(each.late) + "," + std::to_string(each.waiting) + "," +
             number(each.seconds) + "\n";
  append(waiting_, "epoch,late_rank,waiting_rank,seconds\n", lines);
}

}  // namespace tutti::engine
