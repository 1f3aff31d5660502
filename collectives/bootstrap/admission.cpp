// Keys in the commons, "tutti/room/JOB/":
//
//   tickets          a counter, by which each process that comes draws a number N
//   came/N           the host_identity() of process N's host
//   gone/N           set when process N has ended, if the store can detect that
//   called/N         "EPOCH RANK JOB", from the first caller
//   served           every ticket up to this number has been called or is gone; a hint that saves questions
//   epochs           a counter
//   epoch/E/hello/R  the newcomer with rank R has heard its call
//   epoch/E/size     "SIZE ONE_HOST": the number of ranks of epoch E, and 1 if one host has them all; size 0: the
//                    epoch will not begin
//   epoch/E/verdict  "in", or "out": the present ranks go on without the newcomers, who may come again
//
// A process registers its end before it answers its call, so the others learn of its death at once from then on.
#include "collectives/bootstrap/admission.hpp"

#include <sys/types.h>
#include <unistd.h>

#include <algorithm>
#include <limits>
#include <sstream>
#include <thread>
#include <utility>
#include <vector>

#include "transports/core/host.hpp"
#include "transports/core/recorder.hpp"
#include "tutti/log.hpp"
#include "tutti/status.hpp"

namespace tutti::launchers {
namespace {

constexpr Seconds between_looks(0.005);
constexpr Seconds to_answer(5);  // a process that waits answers its call at once, unless it is stopped

const std::string said_in = "in", said_out = "out";

std::string epoch_key(std::uint64_t epoch) { return "epoch/" + std::to_string(epoch); }
std::string hello_key(int rank) { return "hello/" + std::to_string(rank); }
std::string numbered(const char* name, std::int64_t ticket) { return std::string(name) + "/" + std::to_string(ticket); }
std::string own_name() { return "pid " + std::to_string(::getpid()) + " on " + host_name(); }

bool is_set(Store& store, const std::string& key) {
  std::string value;
  return store.find(key, value);
}

/// The tickets of processes that wait, at most `most`, in the order in which they came.
std::vector<std::int64_t> waiting(Store& commons, int most) {
  const std::int64_t first = commons.add("served", 0) + 1, last = commons.add("tickets", 0);
  std::vector<std::int64_t> tickets;
  bool none_before = true;  // so far no process with a ticket waits, or is about to
  std::int64_t done = first - 1;
  for (std::int64_t one = first; one <= last && static_cast<int>(tickets.size()) < most; ++one) {
    const bool is_done = is_set(commons, numbered("called", one)) || is_set(commons, numbered("gone", one));
    if (none_before && is_done) done = one;
    none_before = none_before && is_done;
    // A process that has drawn its number and has not come yet may also have ended in between.
    if (!is_done && is_set(commons, numbered("came", one))) tickets.push_back(one);
  }
  if (done >= first) commons.set("served", std::to_string(done));
  return tickets;
}

bool are_on(const std::string& host, Store& commons, const std::vector<std::int64_t>& tickets) {
  return !host.empty() && std::ranges::all_of(tickets, [&](std::int64_t one) {
    std::string theirs;
    return commons.find(numbered("came", one), theirs) && theirs == host;
  });
}

/// True if the processes with these tickets, which have been called for an epoch, have all answered.
bool have_answered(Store& commons, const std::string& epoch, int size, const std::vector<std::int64_t>& called) {
  const Deadline until = deadline_in(to_answer);
  try {
    for (std::size_t i = 0; i < called.size(); ++i)
      commons.wait_unless(epoch + "/" + hello_key(size + static_cast<int>(i)), numbered("gone", called[i]), until);
    return !called.empty();
  } catch (const Error& error) {
    if (error.code() != Code::timeout && error.culprit() < 0) throw;
    log(LogLevel::info, "a process that waited to join does not answer: " + std::string(error.what()));
    return false;
  }
}

/// Calls the processes for a new epoch; no newcomers if one of them does not answer.
Calling call(const std::shared_ptr<Store>& store, const Callers& callers, const std::vector<std::int64_t>& tickets) {
  Store& commons = *store;
  Calling made{.epoch = static_cast<std::uint64_t>(commons.add("epochs", 1))};
  enter_epoch(store, made.epoch, 0);
  std::vector<std::int64_t> called;
  for (const std::int64_t one : tickets) {
    const int rank = callers.size + static_cast<int>(called.size());
    const std::string text = std::to_string(made.epoch) + " " + std::to_string(rank) + " " + callers.job;
    if (commons.set_once(numbered("called", one), text) == text) called.push_back(one);
  }
  const std::string epoch = epoch_key(made.epoch);
  if (have_answered(commons, epoch, callers.size, called)) made.newcomers = static_cast<std::int32_t>(called.size());
  made.one_host = are_on(callers.host, commons, called) ? 1 : 0;
  const int size = made.newcomers > 0 ? callers.size + made.newcomers : 0;
  commons.set(epoch + "/size", std::to_string(size) + " " + std::to_string(made.one_host));
  return made;
}

}  // namespace

std::shared_ptr<Store> make_commons(std::shared_ptr<Store> store, const std::string& job) {
  return make_prefix_store(std::move(store), "tutti/room/" + job);
}

Calling call_in(const std::shared_ptr<Store>& commons, const Callers& callers, int most, Deadline until) {
  for (;;) {
    const std::vector<std::int64_t> tickets = waiting(*commons, most);
    const bool is_late = Clock::now() >= until;
    if (static_cast<int>(tickets.size()) < most && !is_late) {
      std::this_thread::sleep_for(between_looks);
      continue;
    }
    if (tickets.empty()) return {};
    const Calling made = call(commons, callers, tickets);
    if (made.newcomers > 0 || is_late) return made;
  }
}

int count_waiting(Store& commons) { return static_cast<int>(waiting(commons, std::numeric_limits<int>::max()).size()); }

std::shared_ptr<Store> enter_epoch(const std::shared_ptr<Store>& commons, std::uint64_t epoch, int rank) {
  auto view = make_job_store(commons, epoch_key(epoch));
  view->set_at_end(departure_key(rank),
                   departure_text(rank, "rank " + std::to_string(rank) + " (" + own_name() + ") has ended"));
  return view;
}

void tell_verdict(Store& commons, std::uint64_t epoch, bool admitted) {
  commons.set(epoch_key(epoch) + "/verdict", admitted ? said_in : said_out);
}

/// Waits in the commons until ranks call, and goes to the epoch for which they do. Sets the epoch, this process's rank,
/// the store and the job. Returns the number of ranks; 0: the epoch does not begin.
int answer_call(Bootstrap& newcomer) {
  Store& commons = *newcomer.commons;
  const std::int64_t ticket = commons.add("tickets", 1);
  commons.set_at_end(numbered("gone", ticket), departure_text(0, own_name() + " has ended"));
  commons.set(numbered("came", ticket), host_identity(newcomer.settings.host_id));
  std::istringstream call(commons.wait(numbered("called", ticket), never));
  call >> newcomer.epoch >> newcomer.rank;
  std::getline(call >> std::ws, newcomer.settings.job);
  newcomer.store = enter_epoch(newcomer.commons, newcomer.epoch, newcomer.rank);
  newcomer.store->set(hello_key(newcomer.rank), "1");
  try {
    std::istringstream answer(newcomer.store->wait_unless("size", departure_key(0), never));
    int size = 0, one_host = 0;
    answer >> size >> one_host;
    newcomer.local_size = one_host != 0 ? size : 1;
    return size > newcomer.rank ? size : 0;
  } catch (const Error& error) {
    if (error.culprit() < 0) throw;
    return 0;  // the rank that called has ended
  }
}

Bootstrap wait_to_be_called(const Settings& settings, const Environment& environment) {
  if (settings.store.empty())
    throw Error(
        Code::invalid,
        "TUTTI_JOIN is set, but TUTTI_STORE is not; set TUTTI_STORE, TUTTI_JOB and TUTTI_SECRET to those of the "
        "job that this process is to join, or unset TUTTI_JOIN");
  const auto number = [&](const char* name, int otherwise) { return number_in(environment, name).value_or(otherwise); };
  Bootstrap result;
  result.settings = settings;
  result.launcher = environment("TUTTI_STARTER") ? "tutti run" : "hand";
  const int slot = number("TUTTI_LOCAL_RANK", 0);
  result.recorder =
      Recorder::make(settings.recorder, {number("TUTTI_RANK", 0), number("TUTTI_SIZE", 1), slot, settings.job});
  if (result.recorder) result.recorder->set_stage(Stage::connecting, "waits until the job's ranks admit it");
  const Deadline until = deadline_in(Seconds(settings.connect_timeout));
  result.commons = make_commons(open_store(settings.store, settings.secret, until), settings.job);
  do result.size = answer_call(result);
  while (result.size == 0);
  result.local_rank = result.local_size > 1 ? result.rank : 0;
  return result;
}

bool is_admitted(const Bootstrap& newcomer) {
  try {
    return newcomer.store->wait_unless("verdict", departure_key(0), never) == said_in;
  } catch (const Error& error) {
    if (error.culprit() < 0) throw;
    return false;
  }
}

}  // namespace tutti::launchers
