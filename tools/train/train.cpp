// tutti-train: trains the network of a configuration on all ranks that the launcher started.
#include <c10/util/Exception.h>
#include <fmt/core.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <optional>

#include "engine/loop/all_or_none.hpp"
#include "engine/loop/elastic.hpp"
#include "engine/loop/pretrain.hpp"
#include "engine/server/masters.hpp"
#include "engine/trainer.hpp"
#include "tools/options.hpp"
#include "tools/own_job.hpp"
#include "tools/train/dry_run.hpp"
#include "tools/train/folder.hpp"
#include "tools/train/judge.hpp"
#include "tools/train/launch.hpp"
#include "tools/train/request.hpp"
#include "tools/train/summary.hpp"
#include "tools/train/wishes.hpp"
#include "tutti/bootstrap.hpp"
#include "tutti/communicator.hpp"

namespace {

namespace fs = std::filesystem;
using tutti::Code;
using tutti::Communicator;
using tutti::Error;
namespace engine = tutti::engine;

constexpr int exit_failure = 1, exit_usage = 2;

/// The parts of a run, which every rank reads for itself from the same arguments and files.
struct Job {
  engine::Config config;
  engine::DataSplit data;
  engine::Network network;
  bool names_run = false;         ///< true: config.run is a proposal, and rank 0 makes the folder
  std::string judged, predicted;  ///< see TrainRequest
  bool joins = false;             ///< true: this process joins a run in progress
  std::string launch;             ///< the shell command that starts the same ranks: "tutti train -np 4"
};

/// Outside a job, starts a job in place of this process if the command line asks for ranks. Reports errors before that.
void start_ranks(const std::vector<std::string>& arguments) {
  if (tutti::tools::inside_a_job()) return;
  const tutti::tools::TrainRequest request = tutti::tools::read_request(arguments);
  tutti::Settings settings = tutti::tools::settings_of(request.net);
  const int ranks = request.ranks > 0 ? request.ranks : std::max(request.ranks_before, 1);
  if (request.dry_run)
    tutti::tools::show(tutti::tools::dry_run(request.config, ranks,
                                             request.link.empty() ? tutti::tools::link_of(settings) : request.link));
  if (request.explain) tutti::tools::show(tutti::tools::explain_strategy(request.config, ranks));
  if ((request.ranks == 0 && ranks == 1) || !request.join.empty()) return;
  tutti::tools::check_parallelism(request.config, ranks);
  std::vector<std::string> words = tutti::tools::without_ranks(arguments), flags;
  words.insert(words.begin(), "train");
  if (engine::has_masters(request.config)) {
    engine::roles_of(request.config, ranks);
    flags = {"--keep-going"};
  } else if (const auto& elastic = request.config.elastic; elastic.is_on()) {
    flags = {"--elastic", fmt::format("{}:{}", std::max<std::int64_t>(elastic.min, 1), elastic.max)};
  }
  tutti::tools::become_job(ranks, settings, words, flags);
}

/// Reads what a run needs. Throws Error{invalid} for errors that the user can correct.
Job prepare(const std::vector<std::string>& arguments, const Communicator& world) {
  const tutti::tools::TrainRequest request = tutti::tools::read_request(arguments);
  if (request.ranks > 0)
    throw Error(Code::invalid, "this is a rank of a job already: leave -np out here, or start no ranks around it");
  if (request.explain)
    throw Error(
        Code::invalid,
        "--explain-strategy starts no ranks: say `tutti train -np N --explain-strategy ...` without a launcher");
  if (request.dry_run)
    throw Error(Code::invalid, "--dry-run starts no ranks: say `tutti train -np N --dry-run ...` without a launcher");
  Job job{.config = request.config,
          .data = {},
          .network = {},
          .names_run = request.names_run,
          .judged = request.judged,
          .predicted = request.predicted,
          .joins = !request.join.empty(),
          .launch = tutti::tools::launch_of(world, request.net)};
  engine::take_limits(job.config, std::getenv("TUTTI_ELASTIC"));
  job.config.whole.processes = world.size();
  if (job.joins && world.size() > 1)
    throw Error(Code::invalid, "--join adds one process to a run: say `tutti train --join DIR` without a launcher");
  job.data = tutti::tools::data_of(job.config);
  if (!job.config.report.loss_file.empty() && world.rank() == 0) {
    const fs::path folder = fs::absolute(job.config.report.loss_file).parent_path();
    if (!fs::is_directory(folder)) throw Error(Code::invalid, "loss_file: there is no folder " + folder.string());
  }
  job.network = engine::make_network(job.config, job.data);
  return job;
}

bool misses_target(const Job& job, const engine::TrainResult& result) {
  return job.config.stop.target != 0 && !result.reached_target && !result.interrupted;
}

/// Returns the exit code of a run, the same on all ranks. `differ` is empty if nothing failed.
int code_of(const Job& job, const engine::TrainResult& result, const std::string& differ) {
  return differ.empty() && !misses_target(job, result) ? 0 : exit_failure;
}

std::string judgement(const engine::TrainResult& result) {
  const engine::EpochResult last = result.epochs.empty() ? engine::EpochResult() : result.epochs.back();
  const double accuracy = 100 * last.metric("accuracy");
  return std::isnan(accuracy) ? fmt::format("held-out loss {:.4f}", last.test_loss)
                              : fmt::format("held-out accuracy {:.2f} %", accuracy);
}

/// Prints the result; called on the rank that reports. `differ` says why the replicas are not equal; empty if they are.
/// `about` is printed after the number of steps. Returns the exit code.
int finish(const Job& job, const engine::TrainResult& result, const std::string& differ, const std::string& about,
           double seconds) {
  fmt::print("{}{} steps in {:.1f} s{}\n", result.interrupted ? std::string() : judgement(result) + " after ",
             result.losses.size(), seconds, differ.empty() ? about : "");
  if (!result.stopped.empty()) fmt::print("ended early: {}\n", result.stopped);
  fmt::print("{}", tutti::tools::summary(job.config, result, differ.empty() ? job.launch : std::string()));
  if (!differ.empty()) fmt::print(stderr, "tutti train: {}\n", differ);
  if (misses_target(job, result))
    fmt::print(stderr, "tutti train: stop.target={} was not reached\n", job.config.stop.target);
  std::fflush(stdout);
  return code_of(job, result, differ);
}

/// Reports a failure. If a master (a rank that keeps parameters) dies, several ranks notice, and only one reports it.
void tell_of_failure(const Job& job, const engine::Roles& roles, const Error& error, int rank) {
  const bool is_masters = engine::keeps_parameters(roles, error.culprit());
  const bool has_groups = !roles.submasters.empty();
  const std::string_view said = error.what();
  if (has_groups && said.find("a server ends by an exception") != said.npos) return;  // that server reports it
  if (error.code() != Code::peer_lost || !is_masters)
    fmt::print(stderr, "tutti train: rank {}: {}\n", rank, error.what());
  else if (rank == engine::tells_of_death(roles, error.culprit()))
    fmt::print(stderr, "tutti train: rank {}, which kept the parameters{}, has died, so training ends; {}\n",
               error.culprit(), error.culprit() > 0 && has_groups ? " of a group" : "",
               has_groups ? "begin again, as there are no checkpoints with strategy.submasters"
               : fs::exists(fs::path(job.config.run) / "checkpoints")
                   ? "go on from the last checkpoint: " + tutti::tools::resume_command(job.config, job.launch)
                   : "there is no checkpoint to go on from: with checkpoint.every_epochs=1 there would be");
}

/// Trains with parameters that masters keep. Ranks may end at different times and with different results.
int run_by_masters(const Job& job, Communicator& world) {
  if (world.rank() == 0) fmt::print("{}\n", job.data.description);
  std::fflush(stdout);
  const auto begin = std::chrono::steady_clock::now();
  try {
    const auto roles = engine::roles_of(job.config, world.size());
    tutti::tools::take_ending_signals(world.rank() == roles.workers[0][0], job.config.keeps_the_end());
    const engine::MastersResult result =
        engine::train_by_masters(job.config, world, job.network, job.data, {.wish = tutti::tools::wish_of_signals});
    const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
    const int code =
        result.tells ? finish(job, result.training, {}, "; judged on the masters' parameters", seconds) : 0;
    if (!result.kept.empty())
      fmt::print("{}the network is {}\n",
                 result.worker == 0
                     ? std::string()
                     : fmt::format("worker {} tells of this, as those before it have died; ", result.worker),
                 result.kept);
    for (const std::string& line : result.lines) fmt::print("{}\n", line);
    return result.training.interrupted && tutti::tools::ending_signal() != 0 ? 128 + tutti::tools::ending_signal()
                                                                             : code;
  } catch (const Error& error) {
    tell_of_failure(job, engine::roles_of(job.config, world.size()), error, world.rank());
    return exit_failure;
  }
}

/// Trains as one more worker of the run in job.config.run.
int run_joining(const Job& job, const Communicator& alone) {
  const engine::MastersResult result = engine::train_joining(job.config, alone, job.network, job.data);
  fmt::print("worker {} joined {} and did {} steps of {} samples\n", result.worker, job.config.run,
             result.training.losses.size(), result.batch);
  if (!result.kept.empty()) fmt::print("all others have died; the network is {}\n", result.kept);
  return 0;
}

/// Runs a step whose errors are the same on every rank, and marks them so that only rank 0 reports them.
template <class Step>
auto found_by_all(Step&& step) {
  try {
    return step();
  } catch (const Error& error) {
    if (error.culprit() >= 0) throw;
    throw Error(error.code(), error.what(), 0);
  }
}

void tell(const engine::Pretraining& done, const Communicator& world) {
  if (world.rank() != 0) return;
  for (std::size_t i = 0; i < done.losses.size(); ++i)
    fmt::print("pretraining of filter{}: cost {:.6g} at first, {:.6g} after {} steps\n", i + 1, done.losses[i].front(),
               done.losses[i].back(), done.losses[i].size());
  if (!done.head_losses.empty())
    fmt::print("the head alone: loss {:.6g} after {} steps\n", done.head_losses.back(), done.head_losses.size());
}

int judge(const Job& job, engine::Trainer& trainer, Communicator& world) {
  if (world.rank() == 0) fmt::print("{}\n", job.network.weights);
  if (job.predicted.empty())
    tutti::tools::print_validation(trainer, world);
  else
    tutti::tools::write_predictions(trainer, job.config, job.data, job.predicted, world);
  return 0;
}

/// Trains by `train_all`, which may replace the communicator, and reports the result.
int train(const Job& job, const std::function<engine::TrainResult()>& train_all, Communicator& world) {
  tutti::tools::take_ending_signals(world.rank() == 0, job.config.keeps_the_end());
  const auto begin = std::chrono::steady_clock::now();
  engine::TrainResult result;
  std::string differ;
  try {
    result = train_all();
  } catch (const engine::ReplicaError& error) {  // training is complete, so its losses are reported
    result = error.result;
    differ = error.what();
  } catch (const engine::DivergedError& error) {
    if (error.culprit() < 0) throw;  // the other ranks do not know the error
    result = error.result;
    differ = error.what();
  }
  const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  int code = code_of(job, result, differ);
  if (world.rank() == 0) {
    const std::string ranks = world.size() == 1 ? "the one rank" : fmt::format("all {} ranks", world.size());
    const std::string what =
        job.network.parts ? "; what ranks have alike is bitwise equal on " : "; parameters are bitwise equal on ";
    code = finish(job, result, differ, what + ranks, seconds);
  }
  // also keeps ranks from ending while rank 0 still writes
  int signal = result.interrupted ? tutti::tools::ending_signal() : 0;
  try {
    signal = world.allreduce(signal, tutti::max).wait();
  } catch (const Error& error) {  // a rank was lost after the end of the training
    if (!job.config.elastic.is_on() || error.code() != Code::peer_lost) throw;
  }
  return signal > 0 ? 128 + signal : code;
}

/// Trains on ranks that may die and join.
int train_elastically(Job& job, Communicator& world) {
  if (world.rank() == 0) fmt::print("{}\n", job.data.description);
  const auto task = [&] { return engine::Task{.network = job.network, .data = job.data}; };
  return train(
      job, [&] { return engine::train_elastically(job.config, world, task, {.wish = tutti::tools::wish_of_signals}); },
      world);
}

/// The job of a process that joins others. It is ready to train when they admit it, and reports its own errors before.
Job prepare_to_join(const std::vector<std::string>& arguments) {
  tutti::Bootstrap one;
  one.settings.recorder = "off";  // the launcher sees by this process's records whether it has been admitted
  Communicator alone = Communicator::connect(one);
  Job job = prepare(arguments, alone);
  engine::choose_device(job.network, job.config, alone);
  return job;
}

int run(const std::vector<std::string>& arguments, Communicator& world) {
  const auto asks = [](const std::string& word) {
    return word == "-h" || word == "--help" || word == "--help-config" || word == "--print-config";
  };
  if (world.rank() != 0 && std::any_of(arguments.begin(), arguments.end(), asks)) return 0;
  Job job;
  engine::all_or_none(world, [&] { job = prepare(arguments, world); });
  std::optional<tutti::tools::ClaimedFolder> claimed;
  engine::all_or_none(world, [&] {
    if (job.names_run && world.rank() == 0) job.config.run = claimed.emplace(job.config.run).path();
  });
  job.config.run = tutti::tools::of_first_rank(job.config.run, world);
  if (job.joins) {
    engine::choose_device(job.network, job.config, world);
    return run_joining(job, world);
  }
  if (engine::has_masters(job.config)) {
    found_by_all([&] {
      engine::choose_device(job.network, job.config, world);
      engine::roles_of(job.config, world.size());
    });
    return run_by_masters(job, world);
  }
  if (job.config.elastic.is_on() && job.judged.empty()) {
    found_by_all([&] {
      if (engine::wants_pretraining(job.config, world))
        throw Error(Code::invalid, "pretrain: is not for elastic training: leave it out, or `tutti run --elastic`");
      engine::check_elastic(job.config);
      engine::choose_device(job.network, job.config, world);
    });
    return train_elastically(job, world);
  }
  const auto trainer = found_by_all([&] {
    engine::spread(job.network, job.config, job.data, world);
    engine::choose_device(job.network, job.config, world);
    if (engine::wants_pretraining(job.config, world))
      tell(engine::pretrain(job.config, world, job.network, job.data), world);
    return std::make_unique<engine::Trainer>(job.config, world, engine::Task{.network = job.network, .data = job.data},
                                             engine::Hooks{.wish = tutti::tools::wish_of_signals});
  });
  if (world.rank() == 0) fmt::print("{}\n", job.data.description);
  return job.judged.empty() ? train(
                                  job, [&] { return trainer->run(); }, world)
                            : judge(job, *trainer, world);
}

/// Reports errors that the user can correct on one rank: the culprit if all ranks know the error (see
/// engine::all_or_none()), otherwise the only rank that knows it.
int run_and_say(const std::vector<std::string>& arguments, Communicator& world, std::optional<Job>& joining) {
  try {
    return joining ? train_elastically(*joining, world) : run(arguments, world);
  } catch (const Error& error) {
    // another rank has reported the error
    if (error.code() == Code::aborted && error.culprit() != world.rank()) return exit_failure;
    const bool has_diverged = dynamic_cast<const engine::DivergedError*>(&error) != nullptr;
    const bool is_usage = !has_diverged && (error.code() == Code::invalid || error.code() == Code::unsupported);
    if (!is_usage && !has_diverged && error.code() != Code::resource) throw;
    const bool all_know = error.culprit() >= 0;
    if (!all_know || error.culprit() == world.rank()) fmt::print(stderr, "tutti train: {}\n", error.what());
    std::fflush(stderr);
    if (all_know)
      world.barrier().wait();  // the launcher ends the job when the first rank exits, so print before
    else
      world.abort(error.what());
    return is_usage ? exit_usage : exit_failure;
  }
}

}  // namespace

int main(int argc, char** argv) {
  std::string who = "tutti train";
  tutti::tools::fill_standard_descriptors();
  tutti::tools::take_checkpoint_signal();
  try {
    const std::vector<std::string> arguments(argv + 1, argv + argc);
    start_ranks(arguments);
    std::optional<Job> joining;
    if (const char* const join = std::getenv("TUTTI_JOIN"); join != nullptr && *join != '\0')
      joining = prepare_to_join(arguments);
    Communicator world = Communicator::from_env(tutti::tools::settings_of(tutti::tools::net_of(arguments)));
    who += ": rank " + std::to_string(world.rank());
    return run_and_say(arguments, world, joining);
  } catch (const tutti::tools::Finished& finished) {
    return finished.exit_code;
  } catch (const Error& error) {
    fmt::print(stderr, "{}: {}\n", who, error.what());
    return error.code() == Code::invalid ? exit_usage : exit_failure;
  } catch (const std::bad_alloc&) {
    fmt::print(stderr, "{}: there is no memory left: take fewer ranks on this host, or smaller sizes\n", who);
    return exit_failure;
  } catch (const c10::Error& error) {
    const std::string why = error.what_without_backtrace();
    fmt::print(stderr, "{}: {}\n", who, why.substr(0, why.find('\n')));
    return exit_failure;
  } catch (const std::exception& error) {
    fmt::print(stderr, "{}: {}\n", who, error.what());
    return exit_failure;
  }
}
