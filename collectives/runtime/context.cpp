#include "collectives/runtime/context.hpp"

#include <algorithm>
#include <cstring>
#include <limits>
#include <thread>

#include "collectives/doctor/opinion.hpp"
#include "collectives/runtime/batch.hpp"
#include "collectives/runtime/token_task.hpp"
#include "transports/core/deferred_release.hpp"
#include "transports/core/for_ever.hpp"
#include "transports/core/host.hpp"
#include "transports/core/open_files.hpp"
#include "transports/core/sha256.hpp"
#include "transports/decorators/recorded.hpp"
#include "tutti/fork.hpp"
#include "tutti/log.hpp"
#include "tutti/threads.hpp"

namespace tutti {
namespace {

// How long the destructor waits for resources that backends release on a background thread, such as device memory.
constexpr Seconds patience{5.0};

// Returns the core that this rank's waiting threads move back to, if the ranks of this host have the same affinity mask
// and are at least as many as the cores in it; otherwise -1.
int home_core(int index, const Wiring& wiring) {
  if (!wiring.same_cores || wiring.local_ranks < wiring.local_cores) return -1;
  const std::vector<int> cores = binding_order(allowed_cores());
  // false if a CPU quota allows fewer cores than the affinity mask has
  const bool all = static_cast<int>(cores.size()) == wiring.local_cores;
  return all && cores.size() > 1 ? cores[static_cast<std::size_t>(index) % cores.size()] : -1;
}

}  // namespace

void Routes::add(const std::string& text) {
  auto found = std::ranges::find(texts_, text);
  if (found == texts_.end()) found = texts_.insert(found, text);
  numbers_.push_back(static_cast<std::uint32_t>(found - texts_.begin()));
}

Context::Context(const Bootstrap& bootstrap)
    : rank_(bootstrap.rank),
      size_(bootstrap.size),
      settings_(bootstrap.settings),
      store_(bootstrap.store),
      commons_(bootstrap.commons),
      epoch_(bootstrap.epoch),
      launcher_(bootstrap.launcher),
      native_(bootstrap.native),
      recorder_(bootstrap.recorder && bootstrap.recorder->claim() ? bootstrap.recorder : nullptr) {
  generation_ = fork_generation();
  raise_limit_of_open_files();
  for (const SettingInfo& info : setting_table())  // values set in code have not been checked yet
    Settings(settings_).set(info.key, value_text(settings_, info), "code");
  set_log_level(parse_log_level(settings_.log).value_or(LogLevel::warn));
  if (!recorder_) recorder_ = Recorder::make(settings_.recorder, {rank_, size_, bootstrap.local_rank, settings_.job});
  if (recorder_) recorder_->set_stage(Stage::connecting, "connects to the other ranks");
  wiring_ = connect_all(bootstrap, settings_, *this);
  if (recorder_) {
    if (settings_.record == "messages") wiring_.transport = make_recorded(std::move(wiring_.transport), *recorder_);
    recorder_->looked();
    recorder_->set_stage(Stage::running);
  }
  checks_messages_ = settings_.verify != "off";
  verifies_each_call_ = settings_.verify == "full";
  if (wiring_.local_ranks > wiring_.local_cores)
    log(LogLevel::info,
        std::to_string(wiring_.local_ranks) + " ranks share " + std::to_string(wiring_.local_cores) +
            " cores here, so waiting spins hardly at all",
        rank_);
  ProgressHooks& hooks = *this;
  const int index = wiring_.topology.hosts().index_of(rank_);
  const Progress::Cores cores{
      .ranks = wiring_.local_ranks,
      .room = wiring_.local_cores,
      .all = online_cores(),
      .home = settings_.home_cores == "on" ? home_core(index, wiring_) : -1,
  };
  progress_ = std::make_unique<Progress>(*wiring_.transport, hooks, cores);
  progress_->start();
  progress_->notice();                      // handles the failures and messages reported while connecting
  if (store_) store_->hurry(Seconds(0.5));  // from here on the store is only asked after a failure; limit the wait
}

void Context::delete_elsewhere(Context* context) noexcept {
  try {
    start_thread("ends a rank", [context] { delete context; }).detach();
  } catch (const Error& error) {
    log(LogLevel::warn, std::string(error.what()) + ". The rank's connections stay open.", context->rank_);
    deferred_release(std::shared_ptr<Context>(context));  // the background thread for releases deletes it
  }
}

std::shared_ptr<Context> Context::make(const Bootstrap& bootstrap) {
  // The last handle may be dropped by a callback on the background thread, which cannot join itself.
  return {new Context(bootstrap), [](Context* context) {
            context->progress_->on_background_thread() ? delete_elsewhere(context) : delete context;
          }};
}

Context::~Context() {
  if (fork_generation() != generation_) {  // the thread, connections and their memory belong to the parent
    [[maybe_unused]] auto* progress = progress_.release();
    [[maybe_unused]] auto* transport = wiring_.transport.release();
    return;
  }
  progress_->stop();  // handles the last failures
  publish_reason();
  wiring_.transport.reset();  // tells the peers that this rank leaves
  wait_for_deferred_releases(deadline_in(patience));
}

// ---- communicators ----------------------------------------------------------------------------

std::shared_ptr<GroupState> Context::add_group(Group group, std::string name) {
  const Topology places = topology().of(group.members);
  if (places.hosts().count() > 1) group.table = places.shared_hosts();
  auto state = std::make_shared<GroupState>(std::move(group), recorder_, std::move(name));
  std::vector<Early> early;
  add_group(state, early);
  for (const Early& one : early) deliver_to(state, one.from, one.message);
  return state;
}

void Context::add_group(const std::shared_ptr<GroupState>& state, std::vector<Early>& early) {
  std::lock_guard lock(groups_mutex_);
  if (groups_.size() >= sweep_groups_at_) {  // rarely, so the cost per group is small
    std::erase_if(groups_, [](const auto& entry) { return entry.second.expired(); });
    sweep_groups_at_ = 2 * groups_.size() + 64;
  }
  groups_[state->group().id] = state;
  if (const auto found = early_.find(state->group().id); found != early_.end()) {
    early = std::move(found->second);
    early_.erase(found);
  }
  for (const Cause& cause : ended_)  // the news of a failure may arrive before the group is made
    if (cause.group == 0 ? std::ranges::count(state->group().members, cause.culprit) > 0
                         : cause.group == state->group().id)
      state->poison_with(Status(cause));
}

std::uint64_t Context::next_group_id(std::span<const int> members, std::string_view name) {
  std::string key(reinterpret_cast<const char*>(members.data()), members.size_bytes());
  key.append(1, '/').append(name);
  std::uint64_t use = 0, id = 0;
  {
    const std::lock_guard lock(groups_mutex_);
    use = ++named_[key];
  }
  key.append(1, '/').append(std::to_string(use)).append(1, '/').append(settings_.job);
  const Digest digest = sha256(std::as_bytes(std::span(key)));
  std::memcpy(&id, digest.data(), sizeof id);
  return id | 1u << 1;  // neither 0 nor 1, like the ids of all groups except the world
}

std::vector<std::shared_ptr<GroupState>> Context::groups() {
  std::vector<std::shared_ptr<GroupState>> alive;
  std::lock_guard lock(groups_mutex_);
  for (const auto& [id, weak] : groups_)
    if (auto state = weak.lock()) alive.push_back(std::move(state));
  return alive;
}

// The entry stays, expired, until the next sweep, so that deliver() drops late messages for this group. It would keep
// messages for an unknown group, as this rank may make that group later.
void Context::forget_group(std::uint64_t id) noexcept {
  const std::lock_guard lock(groups_mutex_);
  if (const auto found = groups_.find(id); found != groups_.end()) found->second.reset();
}

std::shared_ptr<GroupState> Context::group_of(std::uint64_t id) {
  const std::lock_guard lock(groups_mutex_);
  const auto found = groups_.find(id);
  return found == groups_.end() ? nullptr : found->second.lock();
}

void Context::drop_engines(std::vector<std::shared_ptr<Engine>> leaving) {
  if (fork_generation() == generation_)
    progress_->drop_unused(std::move(leaving));
  else
    keep_for_ever(std::move(leaving));  // in a forked child: the engines belong to the parent
}

void Context::notify(GroupState& group, const std::shared_ptr<Backend>& backend) {
  group.add(backend);
  if (!group.poisoned()) return;  // if it fails later, end_group() finds the backend
  {
    std::lock_guard lock(news_mutex_);
    joined_late_.push_back(group.shared_from_this());
  }
  progress_->notice();
}

// ---- operations -------------------------------------------------------------------------------

void Context::refuse_in_child() const {
  if (fork_generation() == generation_) return;
  throw Error(Code::invalid, "this process was forked from rank " + std::to_string(rank_) +
                                 ", whose communicators only that rank can use; fork before making them, or exec");
}

void Context::begun(Ref<Operation> operation) {
  operation->place = running_.size();
  running_.push_back(std::move(operation));
  progress_->started();
}

Ref<Operation> Context::finished(Operation& operation) {
  const std::size_t place = operation.place;
  std::swap(running_[place], running_.back());
  running_[place]->place = place;
  Ref<Operation> self = std::move(running_.back());
  running_.pop_back();
  progress_->finished();
  return self;
}

AnySource& Context::any_source() {
  if (!any_source_) add_engine(any_source_ = std::make_shared<AnySource>());
  return *any_source_;
}

void Context::do_holding(std::function<void()> task) {
  refuse_in_child();
  if (progress_->holds_token())
    throw Error(Code::invalid, "this cannot be asked for while the library frees what a call has kept; ask elsewhere");
  auto* const made = new TokenTask(shared_from_this(), std::move(task));
  const Work work(*made);
  launch(*made);
  work.wait();
  made->check();
}

void Context::drive(WorkState& work, Deadline until) {
  refuse_in_child();
  progress_->drive(work, until);
}

void Context::defer(std::function<void()> callback) { progress_->defer(std::move(callback)); }

void Context::abandon(WorkState& work) noexcept {
  if (fork_generation() != generation_) return;
  try {
    Cause why;
    why.code = Code::aborted;
    why.culprit = why.reporter = rank_;
    if (const auto* operation = dynamic_cast<Operation*>(&work)) why.group = operation->group().group().id;
    if (const auto* batch = dynamic_cast<Batch*>(&work)) why.group = batch->group_id();
    why.say("rank " + std::to_string(rank_) +
            " gave up: an exception unwound past the handle of an unfinished call. Look at that rank's own error.");
    fail(why);
    progress_->drive(work, never);
  } catch (...) {  // out of memory while giving up: nothing more can be done
  }
}

void Context::tick(Clock::time_point now) {
  for (const auto& operation : running_) {
    if (operation->done() || operation->group().poisoned()) continue;
    if (!operation->has_deadline()) continue;
    ask(*operation, now);
    if (now >= operation->until()) expire(*operation);
  }
  if (recorder_) {
    recorder_->looked();
    record_partners(now);
  }
}

// Notes for calls that take long which rank they wait for.
void Context::record_partners(Clock::time_point now) {
  constexpr auto long_since = std::chrono::milliseconds(100);
  constexpr std::size_t most_looked_at = 64;
  std::size_t looked_at = 0;
  for (const auto& operation : running_) {
    if (operation->record() == nullptr || operation->done() || now - operation->launched() < long_since) continue;
    if (operation->call().sequence == 0) continue;  // the record of a send or receive names its ranks
    if (++looked_at > most_looked_at) return;
    asked_.clear();
    operation->partners(asked_);
    operation->record()->peer.store(asked_.empty() ? -1 : asked_.front(), std::memory_order_relaxed);
  }
}

std::string Context::opinion(const Status& failure) const {
  const std::lock_guard lock(opinion_mutex_);
  return opinion_about_ == failure.text() ? opinion_ : std::string();
}

// Reads the recorders of this host for the error's text. Many ranks would take too long.
void Context::ask_doctor(const Cause& why, Clock::duration patience) {
  constexpr int most_ranks = 64;
  if (!recorder_ || wiring_.local_ranks > most_ranks) return;
  const auto stuck = std::chrono::duration_cast<std::chrono::nanoseconds>(patience).count();
  std::string text = doctor::last_sentence(settings_.job, recorder_->file(), settings_.recorder, stuck);
  const std::lock_guard lock(opinion_mutex_);
  opinion_ = std::move(text);
  opinion_about_ = why.text;
}

void Context::begin_wait(const WorkState& work) noexcept {
  if (!recorder_) return;
  const auto* operation = dynamic_cast<const Operation*>(&work);
  if (const auto* batch = dynamic_cast<const Batch*>(&work)) operation = batch->first_running();
  recorder_->begin_wait(operation != nullptr ? operation->record() : nullptr);
}

void Context::end_wait() noexcept {
  if (recorder_) recorder_->end_wait();
}

}  // namespace tutti
