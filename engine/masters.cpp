#include "engine/masters.hpp"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <memory>

#include "collectives/bootstrap/stores.hpp"
#include "engine/data/dataset.hpp"
#include "engine/models/model.hpp"
#include "engine/strategies/axes.hpp"
#include "engine/strategies/serve.hpp"

namespace tutti::engine {
namespace {

int count(std::size_t number) { return static_cast<int>(number); }

std::vector<std::uint32_t> share_of(std::size_t samples, std::size_t worker, std::size_t workers) {
  std::vector<std::uint32_t> ids;
  for (std::size_t i = worker; i < samples; i += workers) ids.push_back(static_cast<std::uint32_t>(i));
  return ids;
}

/// Of a worker that is not the first: it keeps and says nothing.
Config quiet(Config config) {
  config.run.clear();
  config.checkpoint = {};
  config.report = {.progress = "none", .loss_file = {}, .trace = 0};
  return config;
}

std::string line_of(int worker, const ServedReport& report) {
  double updates = 0, sum = 0;
  std::uint64_t most = 0;
  for (const auto& [staleness, times] : report.staleness) {
    updates += static_cast<double>(times);
    sum += static_cast<double>(staleness * times);
    most = std::max(most, staleness);
  }
  char text[200];
  std::snprintf(text, sizeof text, "worker %d  %llu exchanges  %.3f MB sent  %.3f MB got  staleness %.2f, at most %llu",
                worker, static_cast<unsigned long long>(report.exchanges), 1e-6 * static_cast<double>(report.sent),
                1e-6 * static_cast<double>(report.got), updates > 0 ? sum / updates : 0,
                static_cast<unsigned long long>(most));
  return text;
}

std::string report_key(std::size_t worker) { return "worker/" + std::to_string(worker); }

const Config& checked(const Config& config) {
  if (config.checkpoint.resume)
    throw Error(Code::invalid, "checkpoint.resume=true: a run with masters begins anew; leave it out");
  return config;
}

class Run {
 public:
  Run(const Config& config, Communicator world, Network network, const DataSplit& data, const Hooks& hooks)
      : config_(checked(config)),
        axes_(axes_of(config)),
        roles_(roles_of(config, world.size())),
        world_(world.dup()),  // with a store of its own
        store_(world_.size() > 1 ? world_.store() : nullptr),
        network_(std::move(network)),
        data_(data),
        hooks_(hooks) {
    for (std::size_t i = 0; i < roles_.workers.size(); ++i)
      if (std::ranges::count(roles_.workers[i], world_.rank()) > 0) worker_ = count(i);
  }

  ServedResult run() {
    const int workers = count(roles_.workers.size());
    ParameterServer::Options options;
    options.servers = roles_.masters;
    for (const auto& processes : roles_.workers) options.workers.push_back(processes.front());
    options.rules = master_rules(config_, tensors_of(network_).parameters, workers);
    options.settings = {{"strategy", axes_.name()}};
    options.timeout = no_deadline;
    auto servers = std::make_shared<ParameterServer>(world_, options);
    ServedResult result;
    result.worker = worker_;
    if (worker_ >= 0) {
      result.tells = worker_ == 0 && roles_.workers[0].front() == world_.rank();
      result.training = work(std::move(servers));
    } else {
      servers->serve();
    }
    if (world_.rank() == roles_.masters.front()) result.lines = lines();
    return result;
  }

 private:
  TrainResult work(std::shared_ptr<ParameterServer> servers) {
    const std::vector<int>& processes = roles_.workers[static_cast<std::size_t>(worker_)];
    const std::size_t workers = roles_.workers.size();
    Communicator own = world_.group(processes, "worker");
    const bool talks = own.rank() == 0;
    Config config = worker_ == 0 ? config_ : quiet(config_);
    config.settle_batch(count(workers * processes.size()));
    config.batch.per_rank = 0;
    config.batch.global = (config.batch.global + count(workers) - 1) / count(workers);
    DataSplit data = data_;
    data.train = std::make_shared<Subset>(data_.train,
                                          share_of(data_.train->size(), static_cast<std::size_t>(worker_), workers));
    const Served* served = nullptr;
    Task task{.network = network_, .data = data};
    task.strategy = [&](const Config& given, const Replica& replica) {
      auto made = make_worker(given, count(workers), replica,
                              talks ? WorkerPlace{servers, store_, worker_ == 0} : WorkerPlace{});
      served = made.get();
      return made;
    };
    Hooks hooks = worker_ == 0 ? hooks_ : Hooks{.on_update = [this](const Moment& now) { stop_with_first(now); }};
    Trainer trainer(config, own, std::move(task), std::move(hooks));
    TrainResult result = trainer.run();
    if (worker_ == 0 && talks && store_ && !result.stopped.empty()) store_->set("stop", result.stopped);
    if (talks && store_) store_->set(report_key(static_cast<std::size_t>(worker_)), line_of(worker_, served->report()));
    if (!store_) lines_.push_back(line_of(worker_, served->report()));
    return result;
  }

  /// The first worker judges when training is to end before its time. Where a worker has several processes they hear of
  /// it in one step.
  void stop_with_first(const Moment& now) {
    const bool alone = roles_.workers[static_cast<std::size_t>(worker_)].size() == 1;
    if (!store_ || !alone || now.step % 8 != 7) return;
    std::string why;
    if (store_->find("stop", why)) now.trainer.stop("the first worker did: " + why);
  }

  std::vector<std::string> lines() const {
    std::vector<std::string> found = lines_;
    std::string text;
    for (std::size_t i = 0; store_ && i < roles_.workers.size(); ++i)
      found.push_back(store_->find(report_key(i), text) ? text
                                                        : "worker " + std::to_string(i) + "  did not come to the end");
    return found;
  }

  const Config config_;
  const Axes axes_;
  const Roles roles_;
  Communicator world_;
  std::shared_ptr<Store> store_;
  Network network_;
  const DataSplit data_;
  const Hooks hooks_;
  int worker_ = -1;
  std::vector<std::string> lines_;
};

}  // namespace

bool has_masters(const Config& config) { return axes_of(config).how == Axes::How::server; }

Roles roles_of(const Config& config, int ranks) {
  const Axes axes = axes_of(config);
  const int masters = static_cast<int>(axes.server.masters), processes = static_cast<int>(axes.server.processes);
  const int left = ranks - masters;
  if (left < 1)
    throw Error(Code::invalid, "strategy.masters=" + std::to_string(masters) + " of " + std::to_string(ranks) +
                                   " ranks: nobody is left to work; start more ranks, or say strategy.masters=0");
  if (left % processes != 0)
    throw Error(Code::invalid, "strategy.processes=" + std::to_string(processes) + ": " + std::to_string(left) +
                                   " working ranks do not make whole workers; start " +
                                   std::to_string(ranks + processes - left % processes) + " ranks");
  Roles roles;
  const int all = axes.members == Axes::Members::quorum ? 1 : ranks;  // of a round there is to be one opinion
  for (int rank = 0; rank < (masters > 0 ? masters : all); ++rank) roles.masters.push_back(rank);
  for (int first = masters; first < ranks; first += processes) {
    roles.workers.emplace_back();
    for (int rank = first; rank < first + processes; ++rank) roles.workers.back().push_back(rank);
  }
  return roles;
}

ServedResult train_by_masters(const Config& config, Communicator world, Network network, const DataSplit& data,
                              const Hooks& hooks) {
  return Run(config, std::move(world), std::move(network), data, hooks).run();
}

}  // namespace tutti::engine
