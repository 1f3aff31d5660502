// How the ranks of one start of a job find one another in a store that other starts have used. Each start is a turn:
// rank 0 gives it a number T, and every rank takes its seat in the turn by setting its hello.
//
// All keys are below "tutti/JOB/SIZE/". The keys of the job itself in turn T are below "T/". The other keys are:
//
//   turns            a counter, by which rank 0 gets a number T that no other start has
//   now              "T PROCESS" of the newest turn
//   left/R           why rank R will not come to any turn, from the launcher
//   door/T/hello/R   "ID PROCESS" of the first process that came as rank R
//   door/T/outcome   the first of: "ok" once rank 0 has seen all hellos; "left WHY" and "late RANKS" if it gives up;
//                    "next PROCESS" once a newer turn is open
//   door/T/next      the number of a newer turn
//
// The number T shows rank 0 that the hellos belong to its own start. A rank that reads an old number in `now` does not
// join that turn: its seat is taken, or the turn is over, or the next rank 0 ends it. The rank then goes on to the next
// turn. If a rank dies in a turn, the store reports it where it can (set_at_end).
#include "tutti/turns.hpp"

#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <optional>
#include <sstream>
#include <vector>

#include "collectives/bootstrap/served_store.hpp"
#include "collectives/bootstrap/store_rules.hpp"
#include "transports/core/host.hpp"
#include "transports/core/process.hpp"
#include "tutti/status.hpp"

namespace tutti::launchers {
namespace {

constexpr Seconds first_look(0.25), longest_look(16);  // how often rank 0 checks whether a rank that came has ended
/// A rank that finds the newest turn over, and its seat in that turn free, waits this long for a newer turn. If none is
/// opened, that turn was the one of its own start.
constexpr Seconds until_the_next(10);

const std::string said_ok = "ok", said_left = "left ", said_late = "late ", said_next = "next ";

/// Identifies a process. No other process of the hosts ever has the same text, even in another container or later.
struct ProcessName {
  std::string host;
  std::uint64_t space = 0;
  pid_t pid = 0;
  std::uint64_t start = 0;
  std::string host_name;

  static ProcessName own() {
    return {host_identity({}), pid_space(), getpid(), process_start(getpid()), tutti::host_name()};
  }
  bool operator==(const ProcessName&) const = default;

  std::string text() const {
    return host + " " + std::to_string(space) + " " + std::to_string(pid) + " " + std::to_string(start) + " " +
           host_name;
  }
  static ProcessName from(std::istream& words) {
    ProcessName found;
    words >> found.host >> found.space >> found.pid >> found.start >> found.host_name;
    return found;
  }
  std::string shown() const { return "pid " + std::to_string(pid) + " on " + host_name; }

  /// True if this is a process other than `own`, and known to be alive. False if it is on another host or in another
  /// container, or if /proc does not say when a process began.
  bool lives_beside(const ProcessName& own) const {
    return host == own.host && space == own.space && pid != own.pid && pid > 0 && start != 0 &&
           start == process_start(pid) && Process(pid).lives();
  }
};

std::int64_t number_in(const std::string& text) {
  std::int64_t number = 0;
  std::from_chars(text.data(), text.data() + text.size(), number);
  return number;
}

std::string keys_of(const Seat& seat) { return "tutti/" + seat.job + "/" + std::to_string(seat.size) + "/"; }
std::string left_key(const Seat& seat, int rank) { return keys_of(seat) + "left/" + std::to_string(rank); }

/// The keys of a job, and the functions that rank 0 and the other ranks have in common.
class Hall {
 public:
  Hall(std::shared_ptr<Store> store, Seat seat) : store_(std::move(store)), seat_(std::move(seat)) {}

  Store& store() const { return *store_; }
  const Seat& seat() const { return seat_; }
  const ProcessName& own() const { return own_; }
  std::string key(const std::string& name) const { return keys_of(seat_) + name; }
  std::string key(std::int64_t turn, const std::string& name) const {
    return key("door/" + std::to_string(turn) + "/" + name);
  }
  std::string hello(std::int64_t turn, int rank) const { return key(turn, "hello/" + std::to_string(rank)); }
  std::string gone(std::int64_t turn, int rank) const {
    return key(std::to_string(turn) + "/gone/" + std::to_string(rank));
  }
  std::string outcome(std::int64_t turn) const { return key(turn, "outcome"); }
  std::shared_ptr<Store> view(std::int64_t turn) const {
    return make_job_store(store_, keys_of(seat_) + std::to_string(turn));
  }

  /// Makes the store report the end of this process to the other ranks.
  void leave_word(std::int64_t turn) const {
    const std::string rank = std::to_string(seat_.rank);
    store_->set_at_end(gone(turn, seat_.rank),
                       departure_text(seat_.rank, "rank " + rank + " (" + own_.shown() + ") has ended"));
  }

  void refuse_twin(const ProcessName& other) const {
    if (!other.lives_beside(own_)) return;
    throw Error(Code::invalid, "rank " + std::to_string(seat_.rank) + " is there twice: process " +
                                   std::to_string(other.pid) + " and this one (" + seat_.by +
                                   "). Give each process its own rank, and of two jobs each its own name (TUTTI_JOB)");
  }

  /// The ranks that have not set their hello in this turn.
  std::vector<int> missing(std::int64_t turn) const {
    std::vector<int> ranks;
    std::string value;
    for (int rank = 0; rank < seat_.size; ++rank)
      if (!store_->find(hello(turn, rank), value)) ranks.push_back(rank);
    return ranks;
  }
  Error not_joined(const std::vector<int>& ranks) const { return store_rules::not_joined(ranks, seat_.patience); }

 private:
  const std::shared_ptr<Store> store_;
  const Seat seat_;
  const ProcessName own_ = ProcessName::own();
};

/// Rank 0, which opens a turn and welcomes the others there.
class Host {
 public:
  Host(std::shared_ptr<Store> store, const Seat& seat, Deadline until)
      : hall_(std::move(store), seat), until_(until), turn_(open()) {}

  std::shared_ptr<Store> receive() const;

 private:
  std::int64_t open() const;
  void gather() const;
  void look_around() const;
  void refuse_rival() const;
  [[noreturn]] void give_up_on(const std::vector<int>& ranks) const;

  const Hall hall_;
  const Deadline until_;
  const std::int64_t turn_;
};

std::int64_t Host::open() const {
  Store& store = hall_.store();
  std::string now;
  std::int64_t before = 0;
  if (store.find(hall_.key("now"), now)) {
    std::istringstream words(now);
    words >> before;
    hall_.refuse_twin(ProcessName::from(words));
  }
  const std::int64_t turn = store.add(hall_.key("turns"), 1);
  // Usually this ends one turn. It ends several if an earlier rank 0 took a number and ended before it set `now`.
  for (std::int64_t old = std::max<std::int64_t>(before, 1); old < turn; ++old) {
    store.set(hall_.key(old, "next"), std::to_string(turn));
    store.set_once(hall_.outcome(old), said_next + hall_.own().text());
  }
  store.set(hall_.key("now"), std::to_string(turn) + " " + hall_.own().text());
  if (hall_.seat().size > 1) hall_.leave_word(turn);
  return turn;
}

std::shared_ptr<Store> Host::receive() const {
  gather();
  if (hall_.store().set_once(hall_.outcome(turn_), said_ok) != said_ok) refuse_rival();
  return hall_.view(turn_);
}

/// Returns when all ranks have set their hellos in this turn. Throws Error if one has ended or is late.
void Host::gather() const {
  Store& store = hall_.store();
  std::vector<Awaited> hellos;
  for (int rank = 1; rank < hall_.seat().size; ++rank)
    hellos.push_back({hall_.hello(turn_, rank), left_key(hall_.seat(), rank)});
  for (Seconds look = first_look;; look = std::min(2 * look, longest_look)) {
    try {
      store.set_and_wait(hall_.hello(turn_, 0), hall_.own().text(), hellos, std::min(until_, deadline_in(look)));
      return;
    } catch (const Error& error) {
      if (error.code() == Code::peer_lost && error.culprit() >= 0) {
        std::string how;
        if (store.find(left_key(hall_.seat(), error.culprit()), how))
          store.set_once(hall_.outcome(turn_), said_left + how);
      }
      if (error.code() != Code::timeout) throw;
    }
    refuse_rival();
    if (Clock::now() < until_) {
      look_around();
      continue;
    }
    if (const std::vector<int> ranks = hall_.missing(turn_); !ranks.empty()) give_up_on(ranks);
    return;
  }
}

/// Throws if a rank that has come to this turn has ended.
void Host::look_around() const {
  std::string how;
  for (int rank = 1; rank < hall_.seat().size; ++rank) {
    if (!hall_.store().find(hall_.gone(turn_, rank), how)) continue;
    hall_.store().set_once(hall_.outcome(turn_), said_left + how);
    throw store_rules::departed(how);
  }
}

void Host::refuse_rival() const {
  std::string outcome;
  if (!hall_.store().find(hall_.outcome(turn_), outcome) || !outcome.starts_with(said_next)) return;
  std::istringstream words(outcome.substr(said_next.size()));
  throw Error(Code::invalid, "another process (" + ProcessName::from(words).shown() + ") has come as rank 0 of " +
                                 std::to_string(hall_.seat().size) +
                                 " while this one waited for the others. If two jobs use one store, give each its own "
                                 "name (TUTTI_JOB) or its own store (TUTTI_STORE)");
}

void Host::give_up_on(const std::vector<int>& ranks) const {
  std::string text = said_late;
  for (const int rank : ranks) text += std::to_string(rank) + " ";
  hall_.store().set_once(hall_.outcome(turn_), text);
  throw hall_.not_joined(ranks);
}

/// Any other rank, on its way to the turn that rank 0 has opened.
class Guest {
 public:
  Guest(std::shared_ptr<Store> store, const Seat& seat, Deadline until)
      : hall_(std::move(store), seat), until_(until), mine_(random_secret().substr(0, 32) + " " + hall_.own().text()) {}

  std::shared_ptr<Store> arrive() {
    for (std::int64_t turn = newest();; turn = newer_than(turn)) {
      otherwise_.reset();
      if (!is_over(turn) && take_seat(turn) && is_welcome(turn)) return hall_.view(turn);
    }
  }

 private:
  std::int64_t newest() const;
  std::int64_t newer_than(std::int64_t turn);
  bool is_over(std::int64_t turn);
  bool take_seat(std::int64_t turn) const;
  bool is_welcome(std::int64_t turn) const;
  void refuse_twin(const std::string& hello) const;
  std::optional<Error> end_of(const std::string& outcome) const;

  const Hall hall_;
  const Deadline until_;
  const std::string mine_;
  std::optional<Error> otherwise_;  ///< what to throw if no newer turn is opened soon
};

std::int64_t Guest::newest() const {
  try {
    return number_in(hall_.store().wait_unless(hall_.key("now"), left_key(hall_.seat(), 0), until_));
  } catch (const Error& error) {
    if (error.code() != Code::timeout) throw;
    throw hall_.not_joined({0});
  }
}

std::int64_t Guest::newer_than(std::int64_t turn) {
  try {
    const Deadline until = otherwise_ ? std::min(until_, deadline_in(until_the_next)) : until_;
    return number_in(hall_.store().wait_unless(hall_.key(turn, "next"), left_key(hall_.seat(), 0), until));
  } catch (const Error& error) {
    if (error.code() != Code::timeout) throw;
    if (otherwise_) throw *otherwise_;
    throw hall_.not_joined({0});
  }
}

/// True for a turn that has ended. If this rank's seat in it was free, the turn may have been the one of this start;
/// then newer_than() gives up soon.
bool Guest::is_over(std::int64_t turn) {
  Store& store = hall_.store();
  std::string outcome, how, hello;
  if (!store.find(hall_.outcome(turn), outcome)) {
    if (!store.find(hall_.gone(turn, 0), how)) return false;
    // Rank 0 may have set the outcome after the first find() and then ended.
    if (!store.find(hall_.outcome(turn), outcome)) outcome = said_left + how;
  }
  if (store.find(hall_.hello(turn, hall_.seat().rank), hello)) {
    refuse_twin(hello);
    return true;  // it was another start's turn, however it ended
  }
  otherwise_ = end_of(outcome);
  const int culprit = otherwise_ ? otherwise_->culprit() : -1;
  if (culprit >= 0 && store.find(left_key(hall_.seat(), culprit), how)) throw *otherwise_;
  return true;
}

/// False if another process had the seat in that turn.
bool Guest::take_seat(std::int64_t turn) const {
  const std::string hello = hall_.store().set_once(hall_.hello(turn, hall_.seat().rank), mine_);
  if (hello != mine_) refuse_twin(hello);
  return hello == mine_;
}

void Guest::refuse_twin(const std::string& hello) const {
  std::istringstream words(hello);
  std::string id;
  words >> id;
  hall_.refuse_twin(ProcessName::from(words));
}

std::optional<Error> Guest::end_of(const std::string& outcome) const {
  if (outcome.starts_with(said_left)) return store_rules::departed(outcome.substr(said_left.size()));
  if (!outcome.starts_with(said_late)) return std::nullopt;
  std::istringstream words(outcome.substr(said_late.size()));
  std::vector<int> ranks;
  for (int rank = 0; words >> rank;) ranks.push_back(rank);
  if (ranks.empty()) ranks.push_back(0);
  if (std::ranges::count(ranks, hall_.seat().rank) > 0)
    return Error(Code::timeout,
                 "rank 0 had given up this start before rank " + std::to_string(hall_.seat().rank) +
                     " came: start the ranks again, closer together, or raise rank 0's TUTTI_CONNECT_TIMEOUT",
                 0);
  return hall_.not_joined(ranks);
}

bool Guest::is_welcome(std::int64_t turn) const {
  hall_.leave_word(turn);
  try {
    const std::string outcome = hall_.store().wait_unless(hall_.outcome(turn), hall_.gone(turn, 0), until_);
    if (const auto error = end_of(outcome)) throw *error;
    return outcome == said_ok;
  } catch (const Error& error) {
    if (error.code() != Code::timeout || error.culprit() >= 0) throw;
    const std::vector<int> ranks = hall_.missing(turn);
    throw hall_.not_joined(ranks.empty() ? std::vector{0} : ranks);
  }
}

}  // namespace

std::shared_ptr<Store> join_turn(std::shared_ptr<Store> store, const Seat& seat, Deadline until) {
  if (seat.rank == 0) return Host(std::move(store), seat, until).receive();
  return Guest(std::move(store), seat, until).arrive();
}

void join_others(Bootstrap& bootstrap, std::shared_ptr<Store> store) {
  Settings& settings = bootstrap.settings;
  const Deadline until = deadline_in(Seconds(settings.connect_timeout));
  const std::string by = "of " + std::to_string(bootstrap.size) + " by " + bootstrap.launcher;
  bootstrap.store =
      join_turn(std::move(store), {bootstrap.rank, bootstrap.size, settings.job, by, settings.connect_timeout}, until);
  if (!settings.job.empty() && !settings.secret.empty()) return;
  const auto two = [] { return random_secret() + "/" + random_secret(); };
  const std::string texts = made_by_rank_0(*bootstrap.store, bootstrap.rank, "job", two, until);
  const std::size_t between = texts.find('/');
  if (settings.job.empty()) settings.job = texts.substr(0, between);
  if (settings.secret.empty()) settings.secret = texts.substr(between + 1);
}

void tell_departure(Store& store, const Seat& seat, const std::string& how) {
  store.set_once(left_key(seat, seat.rank), departure_text(seat.rank, how));
}

}  // namespace tutti::launchers
