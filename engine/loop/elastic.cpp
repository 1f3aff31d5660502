#include "engine/loop/elastic.hpp"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "engine/loop/committed.hpp"
#include "engine/models/split.hpp"
#include "engine/strategies/axes.hpp"

namespace tutti::engine {
namespace {

constexpr Seconds between_looks(0.25);    // at the processes that wait to join
constexpr double patience_below_min = 1;  // seconds from one line about the wait to the next look

class ElasticRun {
 public:
  ElasticRun(Config& config, Communicator& world, const std::function<Task()>& task, Hooks hooks)
      : config_(config),
        first_ranks_(world.size()),
        world_(world),
        task_(task),
        hooks_(std::move(hooks)),
        report_(config_.report.progress, false),
        ends_at_(config_.max_time > 0 ? deadline_in(Seconds(config_.max_time)) : never),
        joins_(world.epoch() > 0) {}

  TrainResult run() {
    for (;;) try {
        regroup();
        return train();
      } catch (const Regrouping&) {
      } catch (const Error& error) {
        go_on_after(error);
      }
  }

 private:
  /// Takes in processes that wait, until there are enough ranks, and gives all ranks the newest state.
  void regroup() {
    const bool begins = std::exchange(is_first_, false) && !joins_;
    if (begins && world_.size() >= config_.elastic.min) return;
    do {
      const bool waits = world_.size() < config_.elastic.min;
      if (waits && !joins_) tell_wait();
      const int room = static_cast<int>(config_.elastic.max) - world_.size();
      const int before = world_.size();
      if (!joins_ && room > 0) grow(room, waits);
      if (!joins_ && world_.size() > before)
        say(ranks_text(world_.size() - before) + " joined: " + ranks_text(world_.size()) + " go on");
      joins_ = false;
      const bool has_none = memory_.number < 0;
      memory_ = share_newest(world_, std::move(memory_));
      if (memory_.number < 0 && world_.epoch() > 0)
        refuse("no rank that has the state of the run is left: start it again with --resume, from its last checkpoint");
      if (has_none && memory_.number >= 0) adopt_run();
    } while (world_.size() < config_.elastic.min);
  }

  /// Admits up to `room` processes. If the store has failed, or there is none, the ranks go on as they are, or end if
  /// they are too few.
  void grow(int room, bool waits) {
    try {
      world_ = world_.grow(room, waits ? patience_below_min : 0);
    } catch (const Error& error) {
      if ((error.code() != Code::resource && error.code() != Code::unsupported) || waits) throw;
      say(error.what());
    }
  }

  void adopt_run() {
    config_.run = memory_.run;
    config_.batch.global = memory_.batch;
    config_.batch.per_rank = 0;
    first_ranks_ = memory_.ranks;
  }

  /// The configuration for the ranks of now.
  Config config_of_now() const {
    Config config = config_;
    if (ends_at_ != never) config.max_time = std::max(Seconds(ends_at_ - Clock::now()).count(), 1e-3);
    if (config.elastic.batch == "keep" || world_.size() == first_ranks_) return config;
    const double share = static_cast<double>(world_.size()) / first_ranks_;
    const double samples = std::round(share * static_cast<double>(config.batch.global));
    config.batch.global = std::max(static_cast<std::int64_t>(samples), std::int64_t{world_.size()});
    config.schedule.scale *= share;
    return config;
  }

  TrainResult train() {
    Hooks hooks = hooks_;
    hooks.wish = [this] { return wish(); };
    Trainer trainer(config_of_now(), world_, task_(), hooks);
    try {
      return memory_.number < 0 ? trainer.run() : trainer.run_from(memory_);
    } catch (...) {  // Regrouping, or an error
      remember(trainer);
      throw;
    }
  }

  void remember(Trainer& trainer) {
    open_ = std::max(open_, trainer.open_wish());
    undone_ = 0;
    if (open_ == Wish::regroup) open_ = Wish::nothing;
    Committed now = trainer.committed();
    undone_ = now.undone;
    if (now.number <= memory_.number) return;
    memory_ = std::move(now);
    memory_.batch = config_.batch.global;
    memory_.ranks = first_ranks_;
  }

  /// What the program's hook asks for, what an earlier trainer could not carry out, and whether processes wait to join.
  Wish wish() {
    Wish found = std::exchange(open_, Wish::nothing);
    if (hooks_.wish) found = std::max(found, hooks_.wish());
    if (found != Wish::nothing || world_.rank() != 0 || Clock::now() < next_look_) return found;
    next_look_ = deadline_in(between_looks);
    if (world_.size() >= config_.elastic.max) return found;
    try {
      if (world_.waiting() > 0) return Wish::regroup;
    } catch (const Error& error) {  // for example, the process that served the store has ended
      next_look_ = never;
      say("no process can join any more: " + std::string(error.what()));
    }
    return found;
  }

  /// Makes the communicator of the ranks that are left. Rethrows an error that no loss of a rank has caused.
  void go_on_after(const Error& error) {
    const bool may_be_loss = error.code() == Code::peer_lost || error.code() == Code::aborted;
    if (!may_be_loss || error.culprit() == world_.world_rank(world_.rank())) throw;
    const int before = world_.size();
    world_ = world_.shrink();
    if (world_.size() == before) throw;
    joins_ = false;
    say(std::string(error.what()));
    say(ranks_text(before - world_.size()) + " lost: " + ranks_text(world_.size()) + " go on" +
        (undone_ == 0 ? ""
                      : ", and do " + std::to_string(undone_) + (undone_ == 1 ? " step" : " steps") +
                            " since the last exchange again"));
  }

  void tell_wait() {
    if (std::exchange(told_, world_.size()) == world_.size()) return;
    say(ranks_text(world_.size()) + " of at least " + std::to_string(config_.elastic.min) +
        " are left: training waits for " + std::to_string(config_.elastic.min - world_.size()) +
        " more to join (tutti run --elastic starts them; or start some with TUTTI_JOIN)");
  }

  static std::string ranks_text(int count) { return std::to_string(count) + (count == 1 ? " rank" : " ranks"); }
  void say(const std::string& line) {
    if (world_.rank() == 0) report_.line(line);
  }

  Config& config_;
  int first_ranks_;  ///< of the run
  Communicator& world_;
  const std::function<Task()>& task_;
  const Hooks hooks_;
  Report report_;
  const Deadline ends_at_;
  bool joins_;  ///< true: this process was admitted by a grow() of the others, and has done nothing since
  bool is_first_ = true;
  Committed memory_;
  std::size_t undone_ = 0;  ///< steps of the last trainer that are done again
  Wish open_ = Wish::nothing;
  Deadline next_look_ = Clock::now();
  int told_ = 0;
};

}  // namespace

void check_elastic(const Config& config) {
  const Axes axes = axes_of(config);
  const auto no = [](const std::string& what) {
    refuse("elastic training does not go with " + what +
           ", as a part of the state would be lost with a rank: leave it out, or elastic.max and `tutti run "
           "--elastic`");
  };
  if (axes.how != Axes::How::allreduce) no("strategy.name=" + config.strategy.name);
  if (axes.what == Axes::What::gradients && axes.codec.kind != CodecChoice::Kind::none) no("strategy.codec");
  if (splits_network(config, 1)) no("a network over a mesh (parallel)");
  if (config.sync.buffers != "broadcast" && config.sync.buffers != "average") no("sync.buffers=" + config.sync.buffers);
  if (config.elastic.batch == "shrink" && config.deterministic == "membership")
    refuse(
        "elastic.batch=shrink changes the samples of a step with the number of ranks, and deterministic=membership "
        "keeps "
        "all bits: leave one of them out");
  if (config.elastic.min > config.elastic.max)
    refuse("elastic.min=" + std::to_string(config.elastic.min) +
           " is more than elastic.max=" + std::to_string(config.elastic.max) + ": exchange them");
}

void take_limits(Config& config, const char* elastic) {
  if (elastic == nullptr || *elastic == '\0') return;
  const std::string_view text = elastic;
  const std::size_t colon = text.find(':');
  std::int64_t least = 0, most = 0;
  const auto parse = [](std::string_view digits, std::int64_t& into) {
    const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), into);
    return error == std::errc() && end == digits.data() + digits.size() && into > 0;
  };
  if (colon == text.npos || !parse(text.substr(0, colon), least) || !parse(text.substr(colon + 1), most))
    refuse("TUTTI_ELASTIC=" + std::string(text) +
           " is not MIN:MAX, two numbers of ranks; `tutti run --elastic` sets it");
  if (config.elastic.max == 0) config.elastic.max = most;
  if (config.elastic.min == 0) config.elastic.min = std::min(least, config.elastic.max);
}

TrainResult train_elastically(Config& config, Communicator& world, const std::function<Task()>& task, Hooks hooks) {
  check_elastic(config);
  return ElasticRun(config, world, task, std::move(hooks)).run();
}

}  // namespace tutti::engine
