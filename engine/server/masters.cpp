#include "engine/server/masters.hpp"

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <filesystem>
#include <memory>
#include <thread>

#include "engine/checkpoint/saver.hpp"
#include "engine/data/tensors.hpp"
#include "engine/models/model.hpp"
#include "engine/server/joining.hpp"
#include "engine/server/make_server.hpp"
#include "engine/server/sample_shares.hpp"
#include "engine/server/submasters.hpp"
#include "engine/strategies/axes.hpp"
#include "tutti/store.hpp"

namespace tutti::engine {
namespace {

int count(std::size_t number) { return static_cast<int>(number); }

/// The configuration of one worker, with its part of the batch.
Config own_config(Config config, std::size_t workers, std::size_t processes) {
  config.resolve_batch(count(workers * processes));
  config.batch.per_rank = 0;
  config.whole.batch = config.batch.global;
  config.batch.global = (config.batch.global + count(workers) - 1) / count(workers);
  return config;
}

/// The configuration of a worker other than the first: such a worker writes no files and prints nothing.
Config quiet(Config config) {
  config.run.clear();
  config.checkpoint = {};
  config.max_time = 0;  // when the first worker ends, all workers end
  config.report = {.progress = "none", .loss_file = {}, .trace = 0};
  return config;
}

std::string line_of(const std::string& who, const ExchangeReport& report) {
  double updates = 0, sum = 0;
  std::uint64_t most = 0;
  for (const auto& [staleness, times] : report.staleness) {
    updates += static_cast<double>(times);
    sum += static_cast<double>(staleness * times);
    most = std::max(most, staleness);
  }
  char text[200];
  std::snprintf(text, sizeof text, "%s  %llu exchanges  %.3f MB sent  %.3f MB got  staleness %.2f, at most %llu",
                who.c_str(), static_cast<unsigned long long>(report.exchanges), 1e-6 * static_cast<double>(report.sent),
                1e-6 * static_cast<double>(report.got), updates > 0 ? sum / updates : 0,
                static_cast<unsigned long long>(most));
  return text;
}

std::string name_of(std::size_t worker) { return "worker " + std::to_string(worker); }
std::string report_key(std::size_t worker) { return "worker/" + std::to_string(worker); }
std::string address_key(std::size_t server) { return "address/" + std::to_string(server); }

class Run {
 public:
  Run(const Config& config, Communicator world, Network network, const DataSplit& data, const Hooks& hooks)
      : config_(config),
        axes_(axes_of(config)),
        roles_(roles_of(config, world.size())),
        family_{roles_.workers.size(), roles_.workers[0].size(), world.size()},
        world_(world.dup()),  // the duplicate has a store of its own
        store_(world_.size() > 1 ? world_.store() : nullptr),
        network_(std::move(network)),
        data_(data),
        hooks_(hooks),
        shares_(own_config(config, family_.workers, family_.processes), data.train, family_.workers, family_.processes),
        mine_{0, family_.workers} {
    for (std::size_t i = 0; i < roles_.workers.size(); ++i)
      if (std::ranges::count(roles_.workers[i], world_.rank()) > 0) worker_ = count(i);
    for (std::size_t i = 0; i < roles_.groups.size(); ++i) {
      const tutti::Range& group = roles_.groups[i];
      const bool has_worker = worker_ >= count(group.offset) && worker_ < count(group.end());
      if (!has_worker && roles_.submasters[i] != world_.rank()) continue;
      group_ = i;
      mine_ = group;
    }
    const std::vector<Ledger::Share> all = shares_.steps();
    ledger_ = std::make_shared<Ledger>(std::vector(all.begin() + count(mine_.offset), all.begin() + count(mine_.end())),
                                       axes_.server.joins > 0);
  }

  /// Constructs the run of a process that joins as a worker.
  Run(const Config& config, std::shared_ptr<ParameterServer> servers, Communicator alone, Network network,
      const DataSplit& data)
      : config_(config),
        axes_(axes_of(config)),
        family_(Family::read(servers->settings())),
        world_(std::move(alone)),
        network_(std::move(network)),
        data_(data),
        shares_(own_config(config, family_.workers, family_.processes), data.train, family_.workers, family_.processes),
        mine_{0, family_.workers},
        worker_(count(family_.workers) + servers->workers().front() - family_.ranks),
        joined_(std::move(servers)) {}

  MastersResult run() {
    MastersResult result;
    result.worker = worker_;
    WorkerPlace place{.store = store_, .is_first = worker_ == 0};
    if (joined_) {
      place.servers = std::move(joined_);
      work(std::move(place), result);
      return result;
    }
    if (!roles_.submasters.empty()) {
      Hierarchy here = connect_groups(config_, roles_, world_, network_, options());
      if (worker_ < 0) {
        keep(std::move(here), result);
        return result;
      }
      place = {.servers = std::move(here.group),
               .store = store_,
               .keys = group_keys(*group_),
               .top = std::move(here.top_connection)};
    } else {
      place.servers = std::make_shared<ParameterServer>(world_, options());
      tell_address(place.servers->address());
    }
    if (worker_ >= 0) {
      try {
        work(std::move(place), result);
      } catch (const std::exception& error) {
        if (worker_ == 0 && store_) store_->set_once("centre", error.what());  // others may still wait for it
        throw;
      }
    } else {
      place.servers->serve();
    }
    if (world_.rank() == roles_.masters.front()) result.lines = lines();
    return result;
  }

 private:
  /// Returns the options of the parameter server that this rank belongs to: the masters', or its group's. The top
  /// master belongs to no group, so it gets options without servers.
  ParameterServer::Options options() {
    ParameterServer::Options options;
    options.silence = axes_.server.silence;
    if (!roles_.submasters.empty() && !group_) return options;
    options.servers = group_ ? std::vector<int>{roles_.submasters[*group_]} : roles_.masters;
    for (std::size_t i = mine_.offset; i < mine_.end(); ++i) options.workers.push_back(roles_.workers[i].front());
    options.rules = master_rules(config_, tensors_of(network_).parameters, ledger_, {options.workers, world_.size()});
    if (!group_)
      options.rules.at(deal_rule_name()).parted = [this](int rank, Parting how, std::uint64_t /*waiting*/) {
        tell_of_the_first(rank, how);
      };
    options.settings = family_.settings(axes_.name());
    options.timeout = no_deadline;
    options.joins = static_cast<int>(axes_.server.joins);
    return options;
  }

  /// Runs the top master or a sub-master until the end of the run.
  void keep(Hierarchy here, MastersResult& result) {
    if (!here.submaster) {
      here.members->wait();
      here.top->serve();
      result.lines = lines();
      return;
    }
    const std::string centre = group_keys(*group_) + "centre";
    try {
      here.submaster->begin();
      store_->set(centre, "there");
    } catch (const std::exception& error) {
      store_->set_once(centre, error.what());
      throw;
    }
    here.submaster->run();
    const ExchangeReport report = here.submaster->report();
    here.submaster.reset();
    here.group.reset();  // blocks until all of its workers are gone
    for (std::size_t i = mine_.offset; i < mine_.end(); ++i) store_->set_once(report_key(i), why_not(i));
    store_->set(group_keys(*group_) + "report",
                line_of("sub-master " + std::to_string(*group_), report) + small_rounds("\n"));
  }

  void work(WorkerPlace place, MastersResult& told) {
    const bool has_joined = roles_.workers.empty();  // a joined worker does only steps of others
    const auto number = static_cast<std::size_t>(worker_);
    Communicator own = has_joined ? world_ : world_.group(roles_.workers[number], "worker");
    const bool talks = own.rank() == 0;
    const std::shared_ptr<ParameterServer> servers = place.servers;  // keeps this rank's server alive, if it has one
    if (!talks) place = {.is_first = place.is_first};
    Config config = own_config(worker_ == 0 ? config_ : quiet(config_), family_.workers, family_.processes);
    told.batch = config.batch.global;
    if (group_) config.checkpoint.at_end = false;
    DataSplit data = data_;
    data.train = shares_.of(has_joined ? 0 : number);
    ServerWorker* worker = nullptr;
    Task task{.network = network_, .data = data};
    task.strategy = [&](const Config& given, const Replica& replica) {
      auto made = make_worker(given, count(mine_.count), replica, place);
      worker = made.get();
      return made;
    };
    task.done = [&] {
      return static_cast<std::size_t>(has_joined ? shares_.steps().front().steps : worker->own_steps());
    };
    if (axes_.server.joins > 0)
      task.may_begin = [&](std::size_t step) { return worker->claim(static_cast<std::int64_t>(step)); };
    task.further = [&](std::size_t epoch, bool is_last) { return further(own, *worker, epoch, is_last); };
    Hooks hooks = hooks_;
    if (worker_ != 0) hooks = {.on_update = [this, &own](const Moment& now) { stop_with_first(own, now); }};
    const bool invites = worker_ == 0 && talks && axes_.server.joins > 0;
    if (invites)
      hooks.on_start = [this, users = hooks.on_start](const Moment& now) {
        write_join_file(config_.run, addresses());
        if (users) users(now);
      };
    Trainer trainer(config, own, std::move(task), std::move(hooks));
    TrainResult result;
    try {
      result = trainer.run();
    } catch (const DivergedError&) {
      if (worker_ == 0 && talks && store_) store_->set("stop", "its numbers were not finite");
      throw;
    }
    if (worker_ == 0 && !result.stopped.empty()) {
      if (talks && store_) store_->set("stop", result.stopped);
      worker->stop();
    }
    const std::string line = line_of(name_of(number), worker->report());
    if (!store_)
      lines_.push_back(line);
    else if (talks)
      store_->set(report_key(number), line);
    told.tells = worker->teller() == worker_ && talks;
    if (told.tells && axes_.server.joins > 0) remove_join_file(config_.run);
    told.training = std::move(result);
    const bool keeps = worker_ != 0 || group_.has_value();
    if (told.tells && keeps && config_.has_folder()) told.kept = write_network();
  }

  /// Tells the other workers, which wait for the first worker's initial parameters, that it has died. Called by the
  /// server's thread.
  void tell_of_the_first(int rank, Parting how) {
    if (!store_ || rank != roles_.workers[0][0] || how == Parting::left) return;
    try {
      store_->set_once("centre", "it has died");
    } catch (const Error&) {  // the store's process has died too
    }
  }

  /// Publishes the address of this rank's server, which the first worker writes to the run's folder.
  void tell_address(const std::string& address) {
    const auto server = std::ranges::find(roles_.masters, world_.rank()) - roles_.masters.begin();
    if (store_ && !address.empty()) store_->set(address_key(static_cast<std::size_t>(server)), address);
    own_address_ = address;
  }

  std::vector<std::string> addresses() const {
    if (!store_) return {own_address_};
    std::vector<std::string> found;
    for (std::size_t i = 0; i < roles_.masters.size(); ++i) found.push_back(store_->wait(address_key(i), never));
    return found;
  }

  /// Writes the masters' parameters, which the network contains at the end, if the first worker does not write them.
  std::string write_network() const {
    const std::filesystem::path file = std::filesystem::path(config_.run) / "model.safetensors";
    std::filesystem::create_directories(file.parent_path());
    const NetworkTensors all = tensors_of(network_);
    Fields arrays;
    for (const auto* list : {&all.parameters, &all.buffers})
      for (const auto& [name, tensor] : *list) arrays[name] = to_array(tensor.detach().contiguous());
    write_arrays(file, arrays, {{"format", "pt"}, {"model", config_.model.name}});
    return file.string();
  }

  /// Returns the samples of a step that another worker has not done, or none. Waits while a step may become free.
  Further further(Communicator& own, ServerWorker& worker, std::size_t epoch, bool is_last) {
    while (true) {
      Ledger::Deal deal = worker.further(epoch, is_last);
      deal.step.worker += count(mine_.offset);  // the ledger counts workers within this group
      if (deal.what == Ledger::Deal::What::take) return shares_.samples(deal.step);
      const bool is_asked = worker_ == 0 && own.size() == 1 && hooks_.wish && hooks_.wish() >= Wish::time_is_over;
      if (deal.what == Ledger::Deal::What::none || is_asked || !why_first_stopped(own).empty()) {
        if (is_last && group_) (void)worker.teller();  // waits for the top's final parameters
        return {};
      }
      std::this_thread::sleep_for(std::chrono::milliseconds(20));
    }
  }

  /// Stops training when the first worker has stopped early.
  void stop_with_first(Communicator& own, const Moment& now) {
    if (now.step % 8 != 7) return;
    if (const std::string why = why_first_stopped(own); !why.empty()) now.trainer.stop("the first worker did: " + why);
  }

  /// Returns why the first worker has stopped early; empty if it has not. Collective over the worker.
  std::string why_first_stopped(Communicator& own) const {
    std::string why;
    if (!store_ || worker_ == 0) return why;
    const std::int64_t seen = own.rank() == 0 && store_->find("stop", why) ? 1 : 0;
    if (own.broadcast(seen, 0).wait() == 1 && own.rank() != 0) store_->find("stop", why);
    return why;
  }

  std::vector<std::string> lines() const {
    std::vector<std::string> found = lines_;
    std::string text;
    for (std::size_t i = 0; store_ && i < roles_.workers.size(); ++i)
      found.push_back(store_->find(report_key(i), text) ? text : why_not(i));
    for (std::size_t i = 0; i < roles_.groups.size(); ++i)
      if (store_->find(group_keys(i) + "report", text)) found.push_back(text);
    for (std::size_t i = ledger_->first_workers(); i < ledger_->workers(); ++i)
      if (const Ledger::Fate fate = ledger_->fate(count(i)); fate.has_come)
        found.push_back(name_of(i) + "  joined while training ran, and did " + std::to_string(fate.taken) +
                        " steps of others" +
                        (fate.is_there || fate.parting == Parting::left ? "" : ", then" + how_it_went(fate)));
    if (const std::string small = small_rounds(); !small.empty()) found.push_back(small);
    return found;
  }

  /// Returns a warning about rounds with few workers, after the text `before`; empty if there was no such round.
  std::string small_rounds(const std::string& before = {}) const {
    const Ledger::Rounds& rounds = ledger_->rounds();
    if (rounds.small == 0) return {};
    return before + "warning: in " + std::to_string(rounds.small) + " of " + std::to_string(rounds.all) +
           " rounds fewer than half of the " + std::to_string(ledger_->workers_seen()) +
           " workers took part: make strategy.quorum or strategy.grace larger";
  }

  std::string why_not(std::size_t worker) const {
    const Ledger::Fate fate = ledger_->fate(count(worker - mine_.offset));
    std::string text = name_of(worker) + "  did not come to the end";
    if (fate.is_there || fate.parting == Parting::left) return text;
    text += ": rank " + std::to_string(roles_.workers[worker][0]) + how_it_went(fate);
    text += " after " + std::to_string(fate.own) + " of " + std::to_string(fate.share) + " steps; others did " +
            std::to_string(fate.share - fate.own - fate.missing);
    if (fate.missing > 0) text += ", and nobody " + std::to_string(fate.missing);
    return text;
  }

  std::string how_it_went(const Ledger::Fate& fate) const {
    if (fate.parting == Parting::died) return " died";
    char seconds[32];
    std::snprintf(seconds, sizeof seconds, "%g", axes_.server.silence);
    return " was not heard from for " + std::string(seconds) + " s";
  }

  const Config config_;
  const Axes axes_;
  const Roles roles_;  // empty on a worker that joins
  const Family family_;
  Communicator world_;
  std::shared_ptr<Store> store_;
  Network network_;
  const DataSplit data_;
  const Hooks hooks_;
  Shares shares_;
  tutti::Range mine_;                 // the workers of this rank's group; all workers if there are no groups
  std::optional<std::size_t> group_;  // on a sub-master and its workers
  std::shared_ptr<Ledger> ledger_;    // used on masters
  int worker_ = -1;
  std::shared_ptr<ParameterServer> joined_;  // on a worker that joins, until run()
  std::string own_address_;                  // used if there is no store
  std::vector<std::string> lines_;
};

}  // namespace

MastersResult train_by_masters(const Config& config, Communicator world, Network network, const DataSplit& data,
                               const Hooks& hooks) {
  return Run(config, std::move(world), std::move(network), data, hooks).run();
}

MastersResult train_joining(const Config& config, Communicator alone, Network network, const DataSplit& data) {
  ParameterServer::Options options;
  options.timeout = no_deadline;
  options.silence = axes_of(config).server.silence;
  auto servers = std::make_shared<ParameterServer>(read_join_file(config.run), options);
  return Run(config, std::move(servers), std::move(alone), std::move(network), data).run();
}

}  // namespace tutti::engine
