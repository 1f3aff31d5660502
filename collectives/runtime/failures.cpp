// How a context learns of failures, sends them to the other ranks, and ends the calls that they concern.
#include <time.h>

#include <algorithm>
#include <thread>
#include <utility>

#include "collectives/runtime/context.hpp"
#include "tutti/log.hpp"

namespace tutti {
namespace {

std::string failure_key(std::uint64_t group) { return "failure/" + std::to_string(group); }
std::string reason_key(int rank) { return "failure/left/" + std::to_string(rank); }
constexpr std::string_view any_failure_key = "failures";  // set once the failure of any group is published

// The loss of a rank concerns all communicators with that rank; any other failure concerns this group only.
Cause cause_for(const GroupState& group, const Status& why) {
  Cause cause = why.cause();
  if (cause.code != Code::peer_lost) cause.group = group.group().id;
  return cause;
}

/// The CPU time that this thread has used.
Seconds own_time() {
  timespec now{};
  ::clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return Seconds(static_cast<double>(now.tv_sec) + 1e-9 * static_cast<double>(now.tv_nsec));
}

}  // namespace

void Context::trouble(std::shared_ptr<GroupState> group, const Status& why) {
  const Cause cause = cause_for(*group, why);
  troubles_.emplace_back(std::move(group), cause);
  progress_->notice();
}

void Context::settle(std::shared_ptr<GroupState> group) {
  settling_.push_back(std::move(group));
  progress_->notice();
}

void Context::postpone(Ref<Operation> operation, const Status& status) {
  postponed_.emplace_back(std::move(operation), status);
  progress_->notice();
}

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
    inbox_.put(from, message);
  }
  if (progress_) progress_->notice();
}

void Context::departed(int rank) {
  {
    std::lock_guard lock(news_mutex_);
    departed_.push_back(rank);
  }
  if (progress_) progress_->notice();
}

void Context::news() {
  // A failure on this rank may be the consequence of a failure on another rank, whose cause was sent earlier.
  // This receives what has arrived.
  if (!troubles_.empty() || !postponed_.empty()) wire().progress();
  std::vector<Cause> causes;
  std::vector<std::shared_ptr<GroupState>> joined_late;
  std::vector<int> departed;
  reading_.clear();
  {
    std::lock_guard lock(news_mutex_);
    causes.swap(causes_);
    reading_.swap(inbox_);
    joined_late.swap(joined_late_);
    departed.swap(departed_);
  }
  for (const Cause& cause : causes) act_on(cause);
  for (const auto& [group, cause] : std::exchange(troubles_, {}))
    if (!group->poisoned()) act_on(cause);
  const auto postponed = std::exchange(postponed_, {});
  for (const auto& [operation, status] : postponed) {
    if (!operation->group().poisoned()) act_on(cause_for(operation->group(), status));
    operation->finish_postponed(status);
  }
  if (!settling_.empty()) take_what_has_arrived();
  for (const auto& group : std::exchange(settling_, {}))
    if (has_running(*group) || !group->takes_arrivals()) end_group(*group, group->poison());
  reading_.for_each([this](int from, ConstBytes message) { read_control(from, message); });
  for (const int rank : departed) agreements_.lose(rank);  // it has an outcome, or will not agree
  for (const auto& group : joined_late) end_backends(*group);
}

// If the failure is another rank's, first receives the messages that were sent before it. Then sends the cause to all
// ranks, before any link is closed, and fails the groups concerned.
//
// The other ranks close their links with a rank that they hold for lost. If that is this rank, it must not report them
// as lost in turn, which would end the communicators that they have without it.
void Context::act_on(Cause why) {
  const bool is_cast_off = acted_on_.contains({0, rank_});
  if (is_cast_off && why.code == Code::peer_lost && why.reporter == rank_ && why.culprit != rank_) return;
  if (!acted_on_.emplace(why.group, why.group == 0 ? why.culprit : -1).second) return;
  // An unreachable rank may have failed earlier with a cause that it could only publish in the store.
  const bool asks = why.code == Code::peer_lost && any_published();
  if (const auto reason = asks ? published(reason_key(why.culprit)) : std::nullopt) {
    if (reason->culprit == why.culprit)
      why = *reason;
    else
      act_on(*reason);
  }
  {
    std::lock_guard lock(groups_mutex_);
    ended_.push_back(why);
  }
  log(LogLevel::info, why.text, rank_);
  if (recorder_) recorder_->failed(why);
  const bool is_lost = why.code == Code::peer_lost && why.group == 0 && why.culprit != rank_;
  if (why.reporter != rank_ || is_lost) take_what_has_arrived(is_lost ? why.culprit : -1);
  if (why.group == 0 && why.culprit == rank_) publish_reason();  // first, as ranks that hear of it may leave at once
  wire().spread(why);
  if (why.group == 0) {
    if (why.culprit >= 0 && why.culprit != rank_)
      agreements_.lose(why.culprit);
    else
      agreements_.fail(Status(why));
  }
  if (why.reporter == rank_ && (why.code == Code::peer_lost || why.code == Code::mismatch)) ask_doctor(why, {});
  const Status status(why);
  for (const auto& group : groups()) {
    const auto& members = group->group().members;
    const bool concerned = why.group != 0 ? group->group().id == why.group
                                          : why.culprit < 0 || std::ranges::count(members, why.culprit) > 0;
    if (!concerned) continue;
    const auto earlier = asks ? published(failure_key(group->group().id)) : std::nullopt;
    const bool is_idle = is_lost && !earlier && !has_running(*group) && !group->has_other_backends();
    if (is_idle && (group->takes_arrivals() || group->poison_with(status)))
      group->take_arrivals(true);
    else
      end_group(*group, earlier ? Status(*earlier) : status);
  }
  if (why.group != 0) publish(why);
}

// Publishes a communicator's failure in the store, for ranks that have no link to this one.
void Context::publish(const Cause& why) noexcept {
  ask_store([&] {
    store_->set_once(failure_key(why.group), {reinterpret_cast<const char*>(&why), sizeof why});
    store_->set_once(any_failure_key, "1");
  });
}

// A rank that leaves after a failure may never have had a link to a rank that still waits for it. That rank finds the
// reason here, and does not take this one for a dead rank.
void Context::publish_reason() noexcept {
  const auto reason = std::ranges::find(ended_, std::uint64_t{0}, &Cause::group);
  if (reason == ended_.end()) return;
  ask_store([&] {
    store_->set_once(reason_key(rank_), {reinterpret_cast<const char*>(&*reason), sizeof(Cause)});
    store_->set_once(any_failure_key, "1");
  });
}

bool Context::any_published() noexcept {
  bool any = false;
  std::string value;
  ask_store([&] { any = store_->find(any_failure_key, value); });
  return any;
}

std::optional<Cause> Context::published(const std::string& key) noexcept {
  std::optional<Cause> found;
  ask_store([&] {
    std::string value;
    if (!store_->find(key, value) || value.size() != sizeof(Cause)) return;
    found = Cause::received(value.data());
  });
  return found;
}

// After the first failed request the store counts as gone, and no further request is made.
void Context::ask_store(const std::function<void()>& question) noexcept {
  if (!store_ || store_gone_) return;
  try {
    question();
  } catch (const std::exception& error) {
    store_gone_ = true;
    log(LogLevel::debug, error.what(), rank_);
  }
}

// A rank that ended by _exit(), was killed after its last call, or failed in a later call, had sent all data that the
// calls before need from it; these calls complete in this function. The other ranks may go on sending for long, so it
// stops after 20 ms of this thread's CPU time; time in which other threads have the core does not count. Devices and
// threads of other libraries complete calls without this thread, so it goes on polling while such calls with the rank
// `lost`, if one is given, run.
void Context::take_what_has_arrived(int lost) {
  constexpr Seconds most(0.02);
  for (const Seconds begin = own_time(); own_time() - begin < most;) {
    if (progress_->look()) continue;
    if (lost < 0 || !has_running_elsewhere(lost)) return;
    std::this_thread::yield();
  }
}

bool Context::has_running_elsewhere(int rank) const {
  return std::ranges::any_of(running_, [rank](const auto& one) {
    const GroupState& group = one->group();
    return group.has_other_backends() && !group.poisoned() && !one->done() && group.group().rank_of(rank) >= 0;
  });
}

bool Context::has_running(const GroupState& group) const {
  return std::ranges::any_of(running_, [&](const auto& one) { return &one->group() == &group && !one->done(); });
}

void Context::end_group(GroupState& group, const Status& why) {
  group.poison_with(why);
  group.take_arrivals(false);
  wire().cancel(group.group().id, group.poison());
  end_backends(group);
  const auto running = running_;  // a copy, because ending operations changes running_; it also keeps them alive
  for (const auto& operation : running)
    if (&operation->group() == &group && !operation->done()) operation->cancel(group.poison());
}

// Cancels all backends of a failed group, also those without a running call: other ranks may wait until such a backend
// releases shared memory.
void Context::end_backends(const GroupState& group) {
  const Status why = group.poison();
  for (const auto& backend : group.backends()) backend->cancel(why);
}

}  // namespace tutti
