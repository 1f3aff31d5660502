// Connects the ranks of a host: each of them connects to the lowest rank, which leads. They exchange these values
// through the Store, under keys that begin with the leader's rank:
//
//   at           the address at which the leader listens
//   absent       how many ranks could not reach the leader
//   called/R     why rank R could not; set before `absent` counts rank R
//   result/R     what rank R can do (see ability()), and a reason
//   results      the results of all ranks: a digit per rank, and the first reason
//
// A value may instead be an error, which ends the meeting for all. The number of requests to the store is linear in the
// number of ranks: a rank requests two values, and the leader one value of each rank.
#include "transports/shm/meeting.hpp"

#include <fcntl.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <optional>
#include <random>
#include <string>

#include "transports/core/barrier.hpp"
#include "transports/core/host.hpp"
#include "transports/core/process.hpp"
#include "transports/core/told_error.hpp"
#include "transports/shm/handshake.hpp"
#include "transports/shm/settings.hpp"
#include "transports/shm/wire.hpp"
#include "tutti/log.hpp"

namespace tutti::shm {
namespace {

// How much longer the others wait than the leader.
constexpr Seconds grace{2.0};

// How often the leader asks the store about missing ranks, even while others call.
constexpr Seconds between_looks{0.2};

void throw_if_told(const std::string& value) {
  if (const std::optional<Error> error = error_told_in(value)) throw *error;
}

class Meeting {
 public:
  explicit Meeting(const Rendezvous& rendezvous)
      : rendezvous_(rendezvous),
        store_(*rendezvous.store),
        rank_(rendezvous.rank),
        members_(rendezvous.peers),
        mark_(std::uint64_t{std::random_device()()} << 32 | std::random_device()()) {
    members_.insert(std::lower_bound(members_.begin(), members_.end(), rank_), rank_);
    leader_ = members_.front();
    self_.card.rank = rank_;
    self_.card.mark = {reinterpret_cast<std::uintptr_t>(&mark_), mark_};
    self_.job = rendezvous.settings->job;
    self_.secret = rendezvous.settings->secret;
  }

  Met run() {
    try {
      return attend();
    } catch (const Error& error) {
      tell(error);
      throw;
    }
  }

 private:
  Met attend();
  void prepare();
  void lead();
  void follow();
  bool gave_up(int rank);
  void throw_if_one_ended(const std::vector<int>& awaited);
  void throw_if_ended(int rank);
  void enter();
  char ability() const;
  bool reads_memory_of(const Link& link) const noexcept;
  pid_t number_here(const Link& link) const noexcept;
  std::string results();
  std::string gathered_results();
  std::string from_leader(const std::string& name);
  Met conclude(const std::string& results);
  Peer peer_of(Link& link) const;
  void tell(const Error& error) noexcept;

  bool leads() const noexcept { return rank_ == leader_; }
  std::string key(const std::string& name) const { return std::to_string(leader_) + "/" + name; }
  std::string key(const std::string& name, int rank) const { return key(name) + "/" + std::to_string(rank); }
  std::size_t local(int rank) const noexcept {
    return static_cast<std::size_t>(std::lower_bound(members_.begin(), members_.end(), rank) - members_.begin());
  }
  Deadline later_than_leader() const {
    return rendezvous_.until == never ? never : rendezvous_.until + duration_of(grace);
  }
  /// True if this rank watches the process of local index `of` from the start.
  bool follows(int of) const {
    const int n = static_cast<int>(members_.size()), self = static_cast<int>(local(rank_));
    return (of - self + n) % n <= most_watched;
  }
  void missed(const std::string& why) {
    if (reason_.empty()) reason_ = why;
  }

  const Rendezvous& rendezvous_;
  Store& store_;
  const int rank_;
  std::vector<int> members_;
  int leader_ = 0;
  std::size_t asked_ = 0;  // number of requests so far whether a rank has ended
  Identity self_;
  const std::uint64_t mark_;  // peers read it during the meeting
  Descriptor doorbell_, death_, life_, segment_file_;
  Bell bell_;
  std::unique_ptr<Listener> listener_;
  std::vector<Link> links_;  // of the ranks that have reached the leader
  Segment segment_;
  std::shared_ptr<Arena> arena_;  // this rank's; null if not all arenas could be mapped
  std::string reason_;
};

Met Meeting::attend() {
  prepare();
  leads() ? lead() : follow();
  if (segment_file_) enter();
  return conclude(results());
}

void Meeting::prepare() {
  doorbell_ = Descriptor(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  if (!doorbell_) throw Error(Code::resource, std::string("no eventfd can be made: ") + std::strerror(errno));
  bell_ = Bell::make();
  death_ = process_descriptor(::getpid());
  if (int ends[2]; !death_ && ::pipe2(ends, O_CLOEXEC | O_NONBLOCK) == 0) {
    death_ = Descriptor(ends[0]);
    life_ = Descriptor(ends[1]);
  }
  if (!death_) throw Error(Code::resource, std::string("neither a pidfd nor a pipe: ") + std::strerror(errno));
  self_.card.pid = ::getpid();
  self_.card.pid_space = pid_space();
  self_.card.bell = bell_.name();
  self_.doorbell = doorbell_.fd();
  self_.death = death_.fd();
}

// The leader waits until every rank has connected or has reported why it cannot, then sends each the Cards of all.
void Meeting::lead() {
  std::string no_arenas;
  segment_file_ = make_segment(*rendezvous_.settings, static_cast<int>(members_.size()), no_arenas);
  if (!no_arenas.empty()) log(LogLevel::info, "no collectives over shared memory: " + no_arenas, rank_);
  self_.segment = segment_file_.fd();
  listener_ = std::make_unique<Listener>(self_, members_.size(), rendezvous_.settings->of(shm_users) == "any");
  store_.set(key("at"), listener_->address());
  std::vector<int> awaited(members_.begin() + 1, members_.end());
  std::string absent;
  Deadline look = deadline_in(between_looks);
  while (!awaited.empty()) {
    const std::size_t before = links_.size();
    const bool heard = listener_->serve(awaited, Seconds(0.02), links_);
    for (std::size_t i = before; i < links_.size(); ++i) std::erase(awaited, links_[i].card.rank);
    if (!heard || Clock::now() >= look) {
      if (std::string now; store_.find(key("absent"), now) && now != absent) {
        absent = now;
        std::erase_if(awaited, [this](int rank) { return gave_up(rank); });
      }
      throw_if_one_ended(awaited);
      look = deadline_in(between_looks);
    }
    if (!awaited.empty() && Clock::now() > rendezvous_.until)
      throw Error(Code::timeout,
                  "rank " + std::to_string(awaited.front()) + " did not come to the meeting of the ranks of host " +
                      host_name() +
                      " in time: see whether it started and what it printed; TUTTI_CONNECT_TIMEOUT sets the limit",
                  awaited.front());
  }
  send_rosters(self_, links_);
}

// True if `rank` reports that it could not connect to this one.
bool Meeting::gave_up(int rank) {
  std::string said;
  if (!store_.find(key("called", rank), said)) return false;
  throw_if_told(said);
  missed("as rank " + std::to_string(rank) + " saw it, " + said);
  return true;
}

// Asks the store whether awaited ranks have ended: about eight of them, and about the following ones in the next call.
void Meeting::throw_if_one_ended(const std::vector<int>& awaited) {
  constexpr std::size_t at_a_time = 8;
  for (std::size_t i = 0; i < std::min(awaited.size(), at_a_time); ++i)
    throw_if_ended(awaited[asked_++ % awaited.size()]);
}

// If `rank` has ended and has set no value `called`, throws the error with which the store reports its end.
void Meeting::throw_if_ended(int rank) {
  std::string how;
  if (store_.find(departure_key(rank), how))
    store_.wait_unless(key("called", rank), departure_key(rank), rendezvous_.until);
}

// The other ranks connect to the leader. A rank that cannot is connected to no rank of the host.
void Meeting::follow() {
  const std::string place = from_leader("at");
  try {
    Called called = call(self_, leader_, place, rendezvous_.until);
    segment_file_ = std::move(called.segment);
    links_ = receive_roster(self_, called.leader, later_than_leader());
  } catch (const Error& error) {
    std::string verdict;
    if (store_.find(key("results"), verdict)) throw_if_told(verdict);  // the leader's error explains this one
    if (error.code() != Code::peer_lost || segment_file_) throw;
    missed(error.what());
    store_.set(key("called", rank_), reason_);
    store_.add(key("absent"), 1);
  }
}

// Maps the segment and the arenas.
void Meeting::enter() {
  const int self = static_cast<int>(local(rank_));
  segment_ = Segment(std::move(segment_file_), static_cast<int>(members_.size()), self);
  auto arenas = std::make_shared<const Arenas>(segment_.fd(), segment_.layout(), self);
  if (*arenas) {
    Descriptor file(::fcntl(segment_.fd(), F_DUPFD_CLOEXEC, 3));
    arena_ = std::make_shared<Arena>(std::move(file), segment_.layout().arena_at(self), std::move(arenas), self);
    arena_->take(sizeof(Directory));  // the first block, at the start of the arena; all zero
    return;
  }
  if (segment_.layout().arena > 0)
    log(LogLevel::info,
        "no collectives over shared memory: the arenas of " + std::to_string(members_.size()) +
            " ranks cannot be mapped; raise the limit on address space (ulimit -v)",
        rank_);
}

// What this rank can use. 0: nothing, 1: rings, 2: rings and arenas, 3: also the private memory of all other ranks.
char Meeting::ability() const {
  if (links_.empty()) return '0';
  if (!arena_) return '1';
  return std::ranges::all_of(links_, [this](const Link& link) { return reads_memory_of(link); }) ? '3' : '2';
}

// The number of the rank's process in this PID namespace; 0: it is not visible in it.
pid_t Meeting::number_here(const Link& link) const noexcept {
  const bool same = link.card.pid_space != 0 && link.card.pid_space == self_.card.pid_space;
  return same ? static_cast<pid_t>(link.card.pid) : process_behind(link.death.fd());
}

bool Meeting::reads_memory_of(const Link& link) const noexcept {
  const pid_t process = number_here(link);
  std::uint64_t seen = 0;
  return std::getenv("TUTTI_TEST_NO_CMA") == nullptr && process > 0 &&
         read_memory_of(process, link.card.mark.at, &seen, sizeof seen) == 0 && seen == link.card.mark.value;
}

std::string Meeting::results() {
  const std::string mine = ability() + (" " + reason_);
  if (leads()) {
    store_.set(key("result", rank_), mine);
    const std::string all = gathered_results();
    store_.set(key("results"), all);
    return all;
  }
  store_.set(key("result", rank_), mine);
  return from_leader("results");
}

std::string Meeting::gathered_results() {
  std::string digits, reason;
  for (const int rank : members_) {
    std::string one;
    try {
      one = store_.wait_unless(key("result", rank), departure_key(rank), rendezvous_.until);
    } catch (const Error& error) {
      if (error.code() != Code::timeout) throw;
      throw Error(Code::timeout,
                  "rank " + std::to_string(rank) + " does not go on in the meeting of the ranks of host " +
                      host_name() +
                      ": see whether it is stopped, and what it printed; TUTTI_CONNECT_TIMEOUT sets the limit",
                  rank);
    }
    throw_if_told(one);
    digits += one.empty() ? '0' : one.front();
    if (reason.empty() && one.size() > 2) reason = one.substr(2);
  }
  return digits + " " + reason;
}

// Waits for a value of the leader, a little longer than the leader itself waits, whose error names the late rank.
std::string Meeting::from_leader(const std::string& name) {
  try {
    const std::string value = store_.wait_unless(key(name), departure_key(leader_), later_than_leader());
    throw_if_told(value);
    return value;
  } catch (const Error& error) {
    if (error.code() != Code::timeout) throw;
    std::string verdict;
    if (store_.find(key("results"), verdict)) throw_if_told(verdict);
    throw Error(
        Code::timeout,
        "rank " + std::to_string(leader_) + ", which leads the meeting of the ranks of host " + host_name() +
            ", did not come in time: see whether it started and what it printed; TUTTI_CONNECT_TIMEOUT sets the "
            "limit",
        leader_);
  }
}

Peer Meeting::peer_of(Link& link) const {
  Peer peer;
  peer.rank = link.card.rank;
  peer.local = static_cast<int>(local(peer.rank));
  peer.pid = link.card.pid;
  peer.process = number_here(link);
  peer.bell = link.card.bell;
  peer.doorbell = std::move(link.doorbell);
  peer.start = peer.process > 0 ? process_start(peer.process) : 0;
  const bool is_pidfd = !life_;                                     // a pipe could not be opened again
  const bool lived = process_lives(peer.process, link.death.fd());  // so `start` is of the same process
  if (!is_pidfd || !lived || peer.start == 0 || follows(peer.local)) peer.death = std::move(link.death);
  return peer;
}

Met Meeting::conclude(const std::string& results) {
  const std::size_t n = members_.size(), own = local(rank_);
  const auto said = [&](std::size_t i) { return i < std::min(results.size(), n) ? results[i] : '0'; };
  Met met;
  Membership membership;
  for (std::size_t i = 0; i < n; ++i)
    if (i != own && (said(own) == '0' || said(i) == '0')) met.unreached.push_back(members_[i]);
  if (!met.unreached.empty()) met.reason = results.substr(std::min(results.size(), n + 1));
  if (met.unreached.size() + 1 == n && n > 1) return met;
  for (Link& link : links_)
    if (said(local(link.card.rank)) != '0') membership.peers.push_back(peer_of(link));
  membership.rank = rank_;
  membership.size = rendezvous_.size;
  membership.members = members_;
  membership.segment = std::move(segment_);
  membership.doorbell = std::move(doorbell_);
  membership.bell = std::move(bell_);
  membership.life = std::move(life_);
  for (std::size_t i = 0; i < n; ++i)
    membership.shared.push_back(said(i) == '3'   ? Shared::own_memory
                                : said(i) == '2' ? Shared::arenas
                                                 : Shared::nothing);
  membership.arena = std::move(arena_);
  membership.cache_bytes = third_level_caches(rendezvous_.cores);
  membership.moves_threads = rendezvous_.settings->home_cores == "on";
  met.wire = std::make_unique<ShmWire>(std::move(membership), *rendezvous_.listener);
  return met;
}

// Reports the error to the other ranks, wherever they wait; if the store is gone, they wait until their time-out.
void Meeting::tell(const Error& error) noexcept {
  try {
    const std::string text = told_error(error);
    if (leads()) {
      for (const char* const name : {"at", "results"}) store_.set_once(key(name), text);
      return;
    }
    for (const char* const name : {"called", "result"}) store_.set_once(key(name, rank_), text);
    store_.add(key("absent"), 1);
  } catch (const std::exception& lost) {
    log(LogLevel::debug, std::string("the other ranks were not told of an error: ") + lost.what(), rank_);
  }
}

}  // namespace

Met meet(const Rendezvous& rendezvous) {
  light_barrier();  // the first barrier takes 10 ms in a process with several threads, and nothing with one
  if (!rendezvous.peers.empty()) return Meeting(rendezvous).run();
  Membership alone;
  alone.rank = rendezvous.rank;
  alone.size = rendezvous.size;
  alone.members = {rendezvous.rank};
  Met met;
  met.wire = std::make_unique<ShmWire>(std::move(alone), *rendezvous.listener);
  return met;
}

}  // namespace tutti::shm
