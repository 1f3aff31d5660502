#include "tests/chaos/survival.hpp"

#include <signal.h>
#include <time.h>

#include <algorithm>
#include <chrono>
#include <stdexcept>
#include <string>
#include <utility>

#include "collectives/bootstrap/admission.hpp"
#include "tutti/clock.hpp"

namespace tutti::testing {
namespace {

constexpr std::chrono::seconds limit{60};
constexpr double patience = 0.2;  // for newcomers, at each try

std::uint64_t bit(int process) { return std::uint64_t{1} << process; }

// Has this process killed later, if it is the one.
void begin_late_death(const Scenario& scenario, int process) {
  if (scenario.late.process != process) return;
  sigevent event{};
  event.sigev_notify = SIGEV_SIGNAL;
  event.sigev_signo = SIGKILL;
  timer_t timer{};
  itimerspec when{};
  when.it_value.tv_sec = scenario.late.microseconds / 1'000'000;
  when.it_value.tv_nsec = scenario.late.microseconds % 1'000'000 * 1'000;
  if (::timer_create(CLOCK_MONOTONIC, &event, &timer) != 0 || ::timer_settime(timer, 0, &when, nullptr) != 0)
    throw std::runtime_error("no timer can be had");
}

}  // namespace

std::shared_ptr<Store> commons_of(const Settings& settings) {
  const Deadline until = deadline_in(Seconds(settings.connect_timeout));
  return launchers::make_commons(open_store(settings.store, settings.secret, until), settings.job);
}

void Survival::go_on(Communicator world) {
  gate_.is_late = true;
  begin_late_death(scenario_, process_);
  repeat(std::move(world), false);
}

void Survival::join() {
  begin_late_death(scenario_, process_);
  report_.is_out = !gate_.await_late(scenario_.ranks);
  if (report_.is_out) return;
  std::optional<Communicator> world;
  try {
    world = Communicator::from_env(scenario_.settings_of(process_));
  } catch (const Error& error) {
    report_.wrong.push_back(std::string("joining: ") + error.what());
    return;
  }
  repeat(std::move(world), true);
}

void Survival::repeat(std::optional<Communicator> group, bool is_new) {
  const auto until = std::chrono::steady_clock::now() + limit;
  bool has_failed = !is_new, comes_from_growing = is_new;
  while (std::chrono::steady_clock::now() < until) {
    try {
      if (has_failed) group = group->shrink();
      if (!comes_from_growing) group = grown(*group);
      comes_from_growing = false;
      const bool works = use(*group);
      const bool is_whole = group->rank() != 0 || missing() == 0;
      const std::uint64_t bits = group->agree((works ? 1u : 0u) | (is_whole ? 2u : 0u)).bits;
      if (bits == 3) {
        report_.members = members_;
        return;
      }
      has_failed = (bits & 1) == 0;
    } catch (const Error& error) {
      const bool is_own_loss = error.code() == Code::peer_lost && error.culprit() == group->world_rank(group->rank());
      if (is_own_loss && (process_ == scenario_.chaos.lose.rank || process_ == scenario_.chaos.kill.rank)) {
        report_.is_out = true;
        return;
      }
      if (!may_happen(error)) {
        report_.wrong.push_back(std::string("going on: ") + error.what());
        return;
      }
      has_failed = true;
    }
  }
  report_.wrong.push_back("the ranks that are left do not come to an end");
}

Communicator Survival::grown(Communicator& group) {
  return scenario_.newcomers > 0 ? group.grow(group.rank() == 0 ? missing() : 0, patience) : group;
}

// Newcomers that are neither dead nor members. A rank that has used no communicator yet knows of none.
int Survival::missing() const {
  int count = 0;
  for (int one = scenario_.ranks; one < scenario_.processes_in_all(); ++one)
    if ((members_ & bit(one)) == 0 && !gate_.has_left(one)) ++count;
  return count;
}

// True for the failures that others have when a rank is lost: the loss itself, and calls that some ranks make while
// others shrink already. Until a job grows, its ranks have the numbers of the processes.
bool Survival::may_happen(const Error& error) const {
  if (!scenario_.may_lose_ranks()) return false;
  if (error.code() != Code::peer_lost) return error.code() == Code::mismatch && scenario_.newcomers > 0;
  return scenario_.newcomers > 0 || scenario_.may_lose(error.culprit());
}

// Learns who the members are. False: a member has died meanwhile.
bool Survival::use(Communicator& group) {
  try {
    std::vector<int> members(static_cast<std::size_t>(group.size()));
    const int own = process_;
    group.allgather(Buffer(const_cast<int*>(&own), 1, DType::i32), Buffer(members.data(), members.size(), DType::i32))
        .wait();
    std::uint64_t all = 0;
    for (const int one : members) all |= bit(one);
    for (const std::size_t count : {1, 1000, 100000}) {
      std::vector<std::int64_t> data(count, process_ + 1);
      group.allreduce(data).wait();
      std::int64_t sum = 0;
      for (const int one : members) sum += one + 1;
      if (data.front() != sum || data.back() != sum) report_.wrong.push_back("a wrong sum after a death");
    }
    group.barrier().wait();
    members_ = all;
    return true;
  } catch (const Error& error) {
    if (error.code() == Code::peer_lost && may_happen(error)) return false;
    throw;
  }
}

}  // namespace tutti::testing
