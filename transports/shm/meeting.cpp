// Connecting the ranks of a host through the Store. Keys are prefixed with the lowest rank, which leads:
//
//   at/R       where rank R listens
//   called/R   the lower ranks that R could not reach, and why; set only if there are any
//   result/R   the ranks that R is linked to
//
// A value may instead be an error of R, which ends the meeting for all. A rank connects to the lower ranks, then
// accepts the higher ones, so there is no cyclic wait. From all results every rank derives which pairs are linked at
// both ends.
#include "transports/shm/meeting.hpp"

#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstdlib>
#include <cstring>
#include <iterator>
#include <random>
#include <span>
#include <sstream>

#include "transports/core/barrier.hpp"
#include "transports/core/host.hpp"
#include "transports/core/process.hpp"
#include "transports/shm/wire.hpp"
#include "tutti/log.hpp"

namespace tutti::shm {
namespace {

// A rank's error as a value in the store: "error 7 text".
std::string wrap(const Error& error) {
  return "error " + std::to_string(static_cast<int>(error.code())) + " " + error.what();
}

void unwrap(const std::string& value) {
  if (!value.starts_with("error ")) return;
  int code = static_cast<int>(Code::internal);
  const char* const end = value.data() + value.size();
  const char* at = std::from_chars(value.data() + 6, end, code).ptr;
  throw Error(static_cast<Code>(code), std::string(at == end ? at : at + 1, end));
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
    self_.rank = rank_;
    self_.job = rendezvous.settings->job;
    self_.secret = rendezvous.settings->secret;
    self_.mark = {reinterpret_cast<std::uintptr_t>(&mark_), mark_};
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
  void call_those_below();
  void answer_those_above();
  bool gave_up(int rank);
  void map_arenas();
  std::string own_result() const;
  bool reads_memory_of(int rank) const noexcept;
  Met conclude(const std::vector<std::string>& results);
  void tell(const Error& error) noexcept;

  bool leads() const noexcept { return rank_ == leader_; }
  std::string key(const std::string& name, int rank) const {
    return std::to_string(leader_) + "/" + name + "/" + std::to_string(rank);
  }
  std::vector<std::string> exchange(const std::string& name, const std::string& own, std::span<const int> with);
  bool linked(int rank) const {
    return std::any_of(links_.begin(), links_.end(), [rank](const Link& link) { return link.rank == rank; });
  }
  void missed(const std::string& why) {
    if (reason_.empty()) reason_ = why;
  }

  const Rendezvous& rendezvous_;
  Store& store_;
  const int rank_;
  std::vector<int> members_;
  int leader_ = 0;
  Identity self_;
  const std::uint64_t mark_;  // peers read it during the meeting
  Descriptor doorbell_, process_, segment_file_, arena_file_;
  std::unique_ptr<Listener> listener_;
  std::vector<Link> links_;
  Segment segment_;
  bool mapped_ = false;
  std::shared_ptr<Arena> arena_;  // this rank's; null if not all arenas could be mapped
  std::vector<ArenaMap> arenas_;  // by local index; empty if not all could be mapped
  std::string reason_;
};

// Publishes this rank's value, then returns those of `with`. Throws an error that one of them reported.
std::vector<std::string> Meeting::exchange(const std::string& name, const std::string& own, std::span<const int> with) {
  std::vector<Awaited> keys;
  for (const int rank : with) keys.push_back({key(name, rank), departure_key(rank)});
  std::vector<std::string> values;
  try {
    values = store_.set_and_wait(key(name, rank_), own, keys, rendezvous_.until);
  } catch (const Error& error) {
    if (error.code() != Code::timeout) throw;
    auto late = with.end();
    for (auto rank = with.begin(); rank != with.end(); ++rank) {
      std::string value;
      if (store_.find(key(name, *rank), value))
        unwrap(value);  // throws a reported error, which explains why other values are missing
      else if (late == with.end())
        late = rank;
    }
    if (late == with.end()) throw;
    throw Error(Code::timeout,
                "rank " + std::to_string(*late) + " did not come to the meeting of the ranks of host " + host_name() +
                    " in time: see whether it started and what it printed; TUTTI_CONNECT_TIMEOUT sets the limit",
                *late);
  }
  for (const std::string& value : values) unwrap(value);
  return values;
}

Met Meeting::attend() {
  prepare();
  call_those_below();
  answer_those_above();
  const int index = static_cast<int>(std::lower_bound(members_.begin(), members_.end(), rank_) - members_.begin());
  if (segment_file_) {
    segment_ = Segment(segment_file_.fd(), static_cast<int>(members_.size()), index);
    mapped_ = true;
  }
  map_arenas();
  return conclude(exchange("result", own_result(), members_));
}

void Meeting::prepare() {
  doorbell_ = Descriptor(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  if (!doorbell_) throw Error(Code::resource, std::string("no eventfd can be made: ") + std::strerror(errno));
  process_ = process_descriptor(::getpid());
  if (leads()) segment_file_ = make_segment(*rendezvous_.settings, static_cast<int>(members_.size()));
  std::string no_arena;
  arena_file_ = make_arena_file(*rendezvous_.settings, members_.size(), no_arena);
  if (!no_arena.empty()) log(LogLevel::info, "no collectives over shared memory: " + no_arena, rank_);
  self_.handout = {doorbell_.fd(), process_.fd(), segment_file_.fd(), arena_file_.fd()};
  listener_ = std::make_unique<Listener>(self_);
}

void Meeting::call_those_below() {
  const std::span<const int> below(members_.begin(), std::ranges::lower_bound(members_, rank_));
  const std::vector<std::string> places = exchange("at", listener_->address(), below);
  std::string failed;
  for (std::size_t i = 0; i < below.size(); ++i) {
    const int rank = below[i];
    try {
      Link link = call(self_, rank, places[i], rendezvous_.until);
      if (rank == leader_) segment_file_ = std::move(link.segment);
      links_.push_back(std::move(link));
    } catch (const Error& error) {
      if (error.code() != Code::peer_lost) throw;
      failed += std::to_string(rank) + " ";
      missed(error.what());
    }
  }
  if (!failed.empty()) store_.set(key("called", rank_), failed + "\n" + reason_);
}

void Meeting::answer_those_above() {
  std::vector<int> awaited(std::upper_bound(members_.begin(), members_.end(), rank_), members_.end());
  while (!awaited.empty()) {
    const bool heard = listener_->serve(awaited, Seconds(0.02), links_);
    std::erase_if(awaited, [this](int rank) { return linked(rank); });
    // No caller: check whether a rank reported that it failed to connect.
    if (!heard) std::erase_if(awaited, [this](int rank) { return gave_up(rank); });
    if (!awaited.empty() && Clock::now() > rendezvous_.until)
      throw Error(Code::timeout,
                  "rank " + std::to_string(awaited.front()) + " did not call rank " + std::to_string(rank_) +
                      " over shared memory's unix sockets in time: see whether it is stopped; "
                      "TUTTI_CONNECT_TIMEOUT sets the limit",
                  awaited.front());
  }
}

// Whether `rank` reports that it could not connect to this one. Throws if it has ended.
bool Meeting::gave_up(int rank) {
  std::string said;
  if (!store_.find(key("called", rank), said)) {
    if (store_.find(departure_key(rank), said))
      store_.wait_unless(key("called", rank), departure_key(rank), rendezvous_.until);
    return false;
  }
  const std::size_t cut = std::min(said.find('\n'), said.size());
  if (!said.starts_with("error ")) {
    std::istringstream ranks(said.substr(0, cut));
    if (std::none_of(std::istream_iterator<int>(ranks), {}, [this](int failed) { return failed == rank_; }))
      return false;
  }
  missed("as rank " + std::to_string(rank) + " saw it, " + said.substr(std::min(cut + 1, said.size())));
  return true;
}

// Maps all arenas, or none.
void Meeting::map_arenas() {
  ArenaMap own(arena_file_.fd(), ArenaMap::Of::own);
  bool all = static_cast<bool>(own);
  for (const int rank : members_) {
    const auto link = std::ranges::find(links_, rank, &Link::rank);
    arenas_.emplace_back(link == links_.end() ? -1 : link->arena.fd(), ArenaMap::Of::peer);
    all = all && (link == links_.end() || arenas_.back());
    if (link != links_.end()) link->arena.reset();
  }
  if (all) {
    arena_ = std::make_shared<Arena>(std::move(arena_file_), std::move(own));
    arena_->take(sizeof(Directory));  // the first block, at the start of the arena; all zero
    return;
  }
  arenas_.clear();
  log(LogLevel::info,
      "no collectives over shared memory: the arenas of " + std::to_string(members_.size()) +
          " ranks cannot all be mapped; raise the limit on address space (ulimit -v)",
      rank_);
}

// "01302 why": one digit per member, by local index; 2 if its arena could be mapped too, 3 if its private memory can be
// read as well.
std::string Meeting::own_result() const {
  std::string result;
  for (const int rank : members_)
    result += !mapped_ || !linked(rank) ? '0' : arenas_.empty() ? '1' : reads_memory_of(rank) ? '3' : '2';
  return result + " " + reason_;
}

bool Meeting::reads_memory_of(int rank) const noexcept {
  if (rank == rank_) return true;
  const Link& link = *std::ranges::find(links_, rank, &Link::rank);
  std::uint64_t seen = 0;
  return std::getenv("TUTTI_TEST_NO_CMA") == nullptr && link.process_here > 0 &&
         read_memory_of(link.process_here, link.mark.at, &seen, sizeof seen) == 0 && seen == link.mark.value;
}

Met Meeting::conclude(const std::vector<std::string>& results) {
  const std::size_t n = members_.size();
  const auto said = [&](std::size_t a, std::size_t b) { return b < results[a].size() ? results[a][b] : '0'; };
  Met met;
  Membership membership;
  const auto own =
      static_cast<std::size_t>(std::lower_bound(members_.begin(), members_.end(), rank_) - members_.begin());
  for (std::size_t i = 0; i < n; ++i) {
    if (i == own) continue;
    const auto link = std::find_if(links_.begin(), links_.end(), [&](const Link& l) { return l.rank == members_[i]; });
    if (said(own, i) != '0' && said(i, own) != '0' && link != links_.end())
      membership.links.push_back(std::move(*link));
    else
      met.unreached.push_back(members_[i]);
  }
  for (std::size_t i = 0; i < n && !met.unreached.empty() && met.reason.empty(); ++i)
    met.reason = results[i].substr(std::min(results[i].size(), n + 1));
  if (membership.links.empty() && n > 1) return met;
  membership.rank = rank_;
  membership.size = rendezvous_.size;
  membership.members = std::move(members_);
  membership.segment = std::move(segment_);
  membership.doorbell = std::move(doorbell_);
  membership.shared.assign(n, std::vector<Shared>(n, Shared::nothing));
  for (std::size_t a = 0; a < n; ++a)
    for (std::size_t b = 0; b < n; ++b) {
      const char both = a == b ? '3' : std::min(said(a, b), said(b, a));
      membership.shared[a][b] = both == '3' ? Shared::own_memory : both == '2' ? Shared::arenas : Shared::nothing;
    }
  membership.arena = std::move(arena_);
  membership.arenas = std::move(arenas_);
  membership.cache_bytes = third_level_caches(rendezvous_.cores);
  membership.moves_threads = rendezvous_.settings->home_cores == "on";
  met.wire = std::make_unique<ShmWire>(std::move(membership), *rendezvous_.listener);
  return met;
}

// Reports the error to the other ranks, wherever they wait; if the store is gone, they wait until their time-out.
void Meeting::tell(const Error& error) noexcept {
  try {
    const std::string text = wrap(error);
    for (const char* const name : {"at", "called", "result"}) store_.set_once(key(name, rank_), text);
  } catch (const std::exception& lost) {
    log(LogLevel::debug, std::string("the other ranks were not told of an error: ") + lost.what(), rank_);
  }
}

}  // namespace

Met meet(const Rendezvous& rendezvous) {
  light_barrier();  // the first call takes 10 ms in a process with several threads, and nothing with one
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
