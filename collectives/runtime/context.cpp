#include "collectives/runtime/context.hpp"

#include <algorithm>
#include <cstring>
#include <thread>

#include "collectives/runtime/batch.hpp"
#include "collectives/runtime/errand.hpp"
#include "transports/core/fork.hpp"
#include "transports/core/host.hpp"
#include "transports/core/let_go.hpp"
#include "transports/core/log.hpp"
#include "transports/core/sha256.hpp"

namespace tutti {
namespace {

constexpr Seconds patience{5.0};  // at the end, with what backends have let go: a library's communicator, memory

std::string failure_key(std::uint64_t group) { return "failure/" + std::to_string(group); }

// Ranks that fill the cores that each of them may use take them in turns; -1: they do not, or have a share of more.
int home_core(int index, const Wiring& wiring) {
  if (!wiring.same_cores || wiring.local_ranks < wiring.local_cores) return -1;
  const std::vector<int> cores = binding_order(allowed_cores());
  const bool all = static_cast<int>(cores.size()) == wiring.local_cores;  // and no quota of them
  return all && cores.size() > 1 ? cores[static_cast<std::size_t>(index) % cores.size()] : -1;
}

// A rank that is lost is so to all its communicators.
Cause cause_for(const GroupState& group, const Status& why) {
  Cause cause = why.cause();
  if (cause.code != Code::peer_lost) cause.group = group.group().id;
  return cause;
}

}  // namespace

Context::Context(const Bootstrap& bootstrap)
    : rank_(bootstrap.rank),
      size_(bootstrap.size),
      settings_(bootstrap.settings),
      store_(bootstrap.store),
      native_(bootstrap.native) {
  generation_ = fork_generation();
  for (const SettingInfo& info : setting_table())  // set in code, they have not been checked yet
    Settings(settings_).set(info.key, value_text(settings_, info), "code");
  set_log_level(parse_log_level(settings_.log).value_or(LogLevel::warn));
  wiring_ = connect_all(bootstrap, settings_, *this);
  checks_messages_ = settings_.verify != "off";
  verifies_each_call_ = settings_.verify == "full";
  const bool crowded = wiring_.local_ranks > wiring_.local_cores;
  if (crowded)
    log(LogLevel::info,
        std::to_string(wiring_.local_ranks) + " ranks share " + std::to_string(wiring_.local_cores) +
            " cores here, so waiting spins hardly at all",
        rank_);
  ProgressHooks& hooks = *this;
  const int index = wiring_.topology.hosts().index_of(rank_);
  const int home = settings_.home_cores == "on" ? home_core(index, wiring_) : -1;
  progress_ = std::make_unique<Progress>(*wiring_.transport, hooks, Progress::Cores{crowded, home});
  progress_->start();
  progress_->notice();                      // of what was heard while connecting
  if (store_) store_->hurry(Seconds(0.5));  // from here on it is only asked when something has failed
}

std::shared_ptr<Context> Context::make(const Bootstrap& bootstrap) {
  // The last handle may be dropped by a callback on the background thread, which cannot join itself.
  return {new Context(bootstrap), [](Context* context) {
            if (context->progress_->on_background_thread())
              std::thread([context] { delete context; }).detach();
            else
              delete context;
          }};
}

Context::~Context() {
  if (fork_generation() != generation_) {  // the thread, the connections and their memory are the parent's
    [[maybe_unused]] auto* progress = progress_.release();
    [[maybe_unused]] auto* transport = wiring_.transport.release();
    return;
  }
  progress_->stop();          // which hears of news until then
  wiring_.transport.reset();  // says goodbye
  wait_for_what_goes(deadline_in(patience));
}

// ---- communicators ----------------------------------------------------------------------------

std::shared_ptr<GroupState> Context::add_group(Group group) {
  const Topology places = topology().of(group.members);
  if (places.hosts().count() > 1) group.host.assign(places.host().begin(), places.host().end());
  auto state = std::make_shared<GroupState>(std::move(group));
  std::vector<Inbox> early;
  add_group(state, early);
  for (const Inbox& letter : early) deliver_to(state, letter.from, letter.message);
  return state;
}

void Context::add_group(const std::shared_ptr<GroupState>& state, std::vector<Inbox>& early) {
  std::lock_guard lock(groups_mutex_);
  std::erase_if(groups_, [](const auto& entry) { return entry.second.expired(); });
  groups_[state->group().id] = state;
  if (const auto found = early_.find(state->group().id); found != early_.end()) {
    early = std::move(found->second);
    early_.erase(found);
  }
  for (const Cause& cause : ended_)  // news may be faster than the split that it is about
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
  return id | 1u << 1;  // as of all groups but the world
}

std::vector<std::shared_ptr<GroupState>> Context::groups() {
  std::vector<std::shared_ptr<GroupState>> alive;
  std::lock_guard lock(groups_mutex_);
  for (const auto& [id, weak] : groups_)
    if (auto state = weak.lock()) alive.push_back(std::move(state));
  return alive;
}

void Context::add_backend(GroupState& group, const std::shared_ptr<Backend>& backend) {
  group.add(backend);
  add_engine(backend);
  if (!group.poisoned()) return;  // from here on end_group() finds it
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

void Context::trouble(std::shared_ptr<GroupState> group, const Status& why) {
  const Cause cause = cause_for(*group, why);
  troubles_.emplace_back(std::move(group), cause);
  progress_->notice();
}

void Context::postpone(Ref<Operation> operation, const Status& status) {
  postponed_.emplace_back(std::move(operation), status);
  progress_->notice();
}

Seekers& Context::seekers() {
  if (!seekers_) add_engine(seekers_ = std::make_shared<Seekers>());
  return *seekers_;
}

void Context::do_holding(std::function<void()> errand) {
  refuse_in_child();
  if (progress_->holds_token())
    throw Error(Code::invalid, "this cannot be asked for while the library frees what a call has kept; ask elsewhere");
  auto* const made = new Errand(shared_from_this(), std::move(errand));
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
  } catch (...) {  // out of memory while giving up: nothing better can be done
  }
}

// ---- failure ----------------------------------------------------------------------------------

void Context::fail(const Cause& why) {
  {
    std::lock_guard lock(news_mutex_);
    causes_.push_back(why);
  }
  if (progress_) progress_->notice();
}

void Context::failed(const Cause& why) { fail(why); }

void Context::control(int from, ConstBytes message) {
  {
    std::lock_guard lock(news_mutex_);
    inbox_.push_back({from, {message.begin(), message.end()}});
  }
  if (progress_) progress_->notice();
}

void Context::news() {
  // What failed here may be a consequence: the news of its cause was sent before.
  if (!troubles_.empty() || !postponed_.empty()) wire().progress();
  std::vector<Cause> causes;
  std::vector<Inbox> inbox;
  std::vector<std::shared_ptr<GroupState>> joined_late;
  {
    std::lock_guard lock(news_mutex_);
    causes.swap(causes_);
    inbox.swap(inbox_);
    joined_late.swap(joined_late_);
  }
  for (const Cause& cause : causes) act_on(cause);
  for (const auto& [group, cause] : std::exchange(troubles_, {}))
    if (!group->poisoned()) act_on(cause);
  const auto postponed = std::exchange(postponed_, {});
  for (const auto& [operation, status] : postponed) {
    if (!operation->group().poisoned()) act_on(cause_for(operation->group(), status));
    operation->finish_postponed(status);
  }
  for (const Inbox& letter : inbox) read_control(letter.from, letter.message);
  for (const auto& group : joined_late) end_backends(*group);
}

// Spreads the cause before anything is closed, then ends whom it concerns.
void Context::act_on(const Cause& why) {
  if (!acted_on_.emplace(why.group, why.group == 0 ? why.culprit : -1).second) return;
  {
    std::lock_guard lock(groups_mutex_);
    ended_.push_back(why);
  }
  log(LogLevel::info, why.text, rank_);
  wire().spread(why);
  const Status status(why);
  for (const auto& group : groups()) {
    const auto& members = group->group().members;
    const bool concerned = why.group != 0 ? group->group().id == why.group
                                          : why.culprit < 0 || std::ranges::count(members, why.culprit) > 0;
    if (!concerned) continue;
    // A rank that cannot be reached may have left because of an error that it could not tell us, for want of a link.
    const auto earlier = why.code == Code::peer_lost ? published(group->group().id) : std::nullopt;
    end_group(*group, earlier ? Status(*earlier) : status);
  }
  if (why.group != 0) publish(why);
}

// The store hears of what ends one communicator, for ranks that no link leads to.
void Context::publish(const Cause& why) noexcept {
  ask_store([&] { store_->set_once(failure_key(why.group), {reinterpret_cast<const char*>(&why), sizeof why}); });
}

std::optional<Cause> Context::published(std::uint64_t group) noexcept {
  std::optional<Cause> found;
  ask_store([&] {
    std::string value;
    if (!store_->find(failure_key(group), value) || value.size() != sizeof(Cause)) return;
    std::memcpy(&found.emplace(), value.data(), sizeof(Cause));
  });
  return found;
}

// A store that has failed once has gone with its process, and is not asked again.
void Context::ask_store(const std::function<void()>& question) noexcept {
  if (!store_ || store_gone_) return;
  try {
    question();
  } catch (const std::exception& error) {
    store_gone_ = true;
    log(LogLevel::debug, error.what(), rank_);
  }
}

void Context::end_group(GroupState& group, const Status& why) {
  group.poison_with(why);
  wire().cancel(group.group().id, group.poison());
  end_backends(group);
  const auto running = running_;  // which ends of operations change, and which keeps them
  for (const auto& operation : running)
    if (&operation->group() == &group && !operation->done()) operation->cancel(group.poison());
}

// Those without a call under way too: others may wait for them to say that they leave their memory alone.
void Context::end_backends(const GroupState& group) {
  const Status why = group.poison();
  for (const auto& backend : group.backends()) backend->cancel(why);
}

void Context::tick(Clock::time_point now) {
  for (const auto& operation : running_) {
    if (operation->done() || operation->group().poisoned()) continue;
    if (!operation->has_deadline()) continue;
    ask(*operation, now);
    if (now >= operation->until()) expire(*operation);
  }
}

}  // namespace tutti
