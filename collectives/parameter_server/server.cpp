// The server's event loop: which request is processed next. A seat is the connection to one worker; a newcomer is a
// worker that joins while the server runs.
#include "collectives/parameter_server/server.hpp"

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <iterator>
#include <new>
#include <set>
#include <utility>

namespace tutti {
namespace {

constexpr std::size_t large_payload = 256 << 10, most_large = 4;  // pooled payload buffers: least bytes, most buffers
constexpr Seconds look_for_newcomers(0.05);
// Limits for the queued requests of one worker: bytes of their payloads, and their number. At a limit the server
// receives no further header from this worker until some requests are processed.
constexpr std::size_t most_queued = 64 << 20, most_arrivals = 1 << 16;
// Limit for the bytes of large replies that are being sent to one worker. The last of these replies may exceed it.
constexpr std::size_t most_unsent = 64 << 20;

// True for the requests that continue a dump. The server processes them before requests that the dump delays.
bool is_step_of_cut(protocol::Verb verb) {
  return verb == protocol::Verb::cut_at || verb == protocol::Verb::cut_take || verb == protocol::Verb::fetch ||
         verb == protocol::Verb::uncut;
}

Buffer bytes_at(void* data, std::size_t bytes) { return {data, bytes, DType::u8}; }

}  // namespace

Server::Server(Seating seating, const ServerRules& rules, const std::map<std::string, std::string>& settings,
               double silence)
    : number_(seating.number),
      servers_(seating.servers),
      settings_(settings),
      silence_(silence),
      admits_(seating.admits) {
  for (const ServerRules& some : {standard_rules(), rules})
    for (const auto& [name, rule] : some) {
      NamedRule& one = rules_[protocol::id_of(name)];
      if (!one.name.empty() && one.name != name)
        throw Error(Code::invalid, "parameter server: rename the rule '" + name +
                                       "', as it cannot be told apart from '" + one.name + "'");
      if (!rule.apply) throw Error(Code::invalid, "parameter server: the rule '" + name + "' has no function");
      one = {name, rule};
    }
  for (Member& member : seating.members) add(std::move(member));
  for (const auto& seat : seats_)
    if (!seat->is_over) listen(*seat);
}

Server::~Server() {
  for (const auto& seat : seats_)
    if (seat->listens) (void)seat->next.cancel();
}

void Server::abort(const std::string& why) noexcept {
  const std::lock_guard lock(members_);
  for (const auto& seat : seats_)
    if (seat->member.pair) seat->member.pair->abort(why);
  for (Member& member : admitted_)
    if (member.pair) member.pair->abort(why);
}

Server::Seat& Server::add(Member member) {
  auto seat = std::make_unique<Seat>();
  seat->is_over = seat->has_died = !member.pair;
  seat->place = seats_.size();
  open_seats_ += seat->is_over ? 0 : 1;
  seat->header = Block(sizeof(protocol::Request));
  seat->heard = Clock::now();
  seat->member = std::move(member);
  by_worker_[seat->member.worker] = seat.get();
  return *seats_.emplace_back(std::move(seat));
}

void Server::admit(Member member) {
  const std::lock_guard lock(members_);
  admitted_.push_back(std::move(member));
}

void Server::turn_away() noexcept {
  const std::lock_guard lock(members_);
  for (Member& member : admitted_)
    if (member.pair) member.pair->abort("parameter server: what was to be joined has ended");
  admitted_.clear();
}

// Gives each queued newcomer a seat; aborts the connection if its worker number has had one. During a dump only those
// newcomers get a seat whose requests at another server the dump contains. Returns true if no newcomer is left waiting.
bool Server::take_in() {
  const std::lock_guard lock(members_);
  std::vector<Member> later;
  for (Member& member : std::exchange(admitted_, {})) {
    if (by_worker_.contains(member.worker)) {
      if (member.pair)
        member.pair->abort("parameter server: there has been a worker " + std::to_string(member.worker) + " already");
      continue;
    }
    if (cut_ && !cut_->until.contains(member.worker)) {
      later.push_back(std::move(member));
      continue;
    }
    Seat& seat = add(std::move(member));
    if (!seat.is_over) listen(seat);
  }
  admitted_ = std::move(later);
  return admitted_.empty();
}

// True if all workers have ended and no newcomer is queued.
bool Server::is_over() {
  const bool nobody_waits = take_in();
  return nobody_waits && open_seats_ == 0;
}

void Server::listen(Seat& seat) {
  seat.next = seat.member.pair->recv(bytes_at(seat.header.data(), seat.header.size()), seat.member.peer,
                                     protocol::requests, {.timeout = no_deadline});
  seat.listens = true;
  if (silence_ > 0) next_silence_ = std::min(next_silence_, silent_at(seat));
  watch(seat, seat.next);
}

void Server::run() {
  for (const auto& seat : seats_)
    if (seat->is_over) tell_parted(*seat, Parting::died);  // the worker died before it was connected
  while (!is_over()) {
    wait();
    look_at_ready();
    const Clock::time_point now = Clock::now();
    for (Shard* const shard : std::set<Shard*>(timed_)) {
      shard->tick(now, answers_);
      after(*shard);
    }
    give_up_silent();
    send_answers();
  }
}

// Blocks until an operation that a seat waits for has completed, or until the next deadline.
void Server::wait() {
  Deadline first = next_silence_;
  for (const Shard* const shard : timed_) first = std::min(first, shard->due());
  if (admits_) first = std::min(first, deadline_in(look_for_newcomers));
  const Seconds limit = first == never ? Seconds(for_ever) : std::max(Seconds(0), Seconds(first - Clock::now()));
  if (!look_at_all_) works_.wait(ready_, limit);
}

void Server::look_at_ready() {
  if (std::exchange(look_at_all_, false)) {
    for (std::size_t place = 0; place < seats_.size(); ++place) ready_.push_back(place);
  }
  for (const std::uint64_t place : std::exchange(ready_, {}))
    if (Seat& seat = *seats_[place]; !seat.is_over) look_at(seat);
}

/// Returns true if the server receives another request of the worker now: false while the worker is at a limit above,
/// for example because it does not read its replies.
bool Server::may_ask(Seat& seat) {
  while (!seat.unsent.empty() && seat.unsent.front().first.done()) seat.unsent.pop_front();
  std::size_t unsent = 0;
  for (const auto& [work, bytes] : seat.unsent) unsent += bytes;
  return unsent < most_unsent && seat.queued < most_queued && seat.arrivals.size() < most_arrivals;
}

// Processes the worker's requests as far as possible without blocking.
void Server::look_at(Seat& seat) {
  try {
    bool moved = true;
    while (moved && !seat.is_over) {
      moved = false;
      if (seat.listens && seat.next.done()) {
        take_header(seat);
        moved = true;
      }
      moved |= work_on_arrivals(seat);
      send_answers();
      const bool makes_cut = cut_ && cut_->owner == seat.member.worker;  // the next steps of its dump must arrive
      if (!seat.is_over && !seat.listens && (may_ask(seat) || makes_cut)) {
        listen(seat);
        moved = true;
      }
    }
  } catch (const Error&) {  // the connection failed, most likely because the worker died
    end(seat, Parting::died);
  } catch (const std::bad_alloc&) {  // no memory for the payload that the header announced, so it cannot be received
    seat.member.pair->abort("parameter server: rank " + std::to_string(seat.member.worker) +
                            " announced more than the server has memory for and was given up; send smaller pieces");
    end(seat, Parting::died);
  }
}

// The time at which the worker counts as silent. `never` while this server does not receive from the worker, because it
// would not notice heartbeats.
Deadline Server::silent_at(const Seat& seat) const {
  if (silence_ <= 0 || seat.is_over || !seat.listens) return never;
  return seat.heard + duration_of(Seconds(silence_));
}

void Server::give_up_silent() {
  const Clock::time_point now = Clock::now();
  if (now < next_silence_) return;
  next_silence_ = never;
  for (const auto& seat : seats_) {
    if (now < silent_at(*seat)) {
      next_silence_ = std::min(next_silence_, silent_at(*seat));
      continue;
    }
    char seconds[32];
    std::snprintf(seconds, sizeof seconds, "%g", silence_);
    seat->member.pair->abort("parameter server: rank " + std::to_string(seat->member.worker) +
                             " was not heard from for " + seconds + " s and was given up; start it again");
    end(*seat, Parting::silent);
  }
}

// Reuses large buffers, because page faults in fresh memory cost more than receiving into it.
Block Server::room_for(std::size_t bytes) {
  if (bytes < large_payload) return Block(bytes);
  const auto free =
      std::ranges::find_if(large_, [&](const Block& one) { return one.size() == bytes && !one.is_shared(); });
  Block taken = free == large_.end() ? Block(bytes) : *free;
  if (free != large_.end()) large_.erase(free);
  large_.push_front(taken);
  if (large_.size() > most_large) large_.pop_back();
  return taken;
}

void Server::take_header(Seat& seat) {
  seat.listens = false;
  seat.next.wait();
  Arrival& arrival = seat.arrivals.emplace_back();
  seat.heard = Clock::now();
  std::memcpy(&arrival.request, seat.header.data(), sizeof arrival.request);
  if (arrival.request.verb == protocol::Verb::alive) return seat.arrivals.pop_back();
  if (const std::size_t bytes = arrival.request.bytes; bytes > 0) {
    if (bytes > PTRDIFF_MAX) throw std::bad_alloc();
    arrival.payload = room_for(bytes);
    seat.queued += bytes;
    arrival.work = seat.member.pair->recv(bytes_at(arrival.payload.data(), bytes), seat.member.peer, protocol::payloads,
                                          {.keep = arrival.payload.lease()});
    watch(seat, arrival.work);
  }
}

// A push or pull whose payload has not arrived delays later pushes and pulls of the same buffer. Any other request
// waits for all requests before it and delays all after it. During a dump, requests that the dump does not contain
// wait; the steps of the dump itself never do.
bool Server::work_on_arrivals(Seat& seat) {
  bool moved = false, is_blocked = false;
  std::set<std::uint64_t> waiting;
  for (std::size_t i = 0; i < seat.arrivals.size() && !seat.is_over;) {
    Arrival& one = seat.arrivals[i];
    const protocol::Verb verb = one.request.verb;
    const bool is_exchange = verb >= protocol::Verb::push, is_step = is_step_of_cut(verb);
    const bool is_in_turn = is_exchange ? !waiting.contains(one.request.instance) : i == 0;
    if (!one.work.done() || (!is_step && (is_blocked || !is_in_turn || !may_be_taken(seat, one)))) {
      if (is_exchange) waiting.insert(one.request.instance);
      is_blocked |= !is_exchange && !is_step;
      ++i;
      continue;
    }
    one.work.wait();
    Arrival arrival = std::move(one);
    seat.arrivals.erase(seat.arrivals.begin() + static_cast<std::ptrdiff_t>(i));
    seat.queued -= arrival.request.bytes;
    if (arrival.request.sequence > seat.taken) {
      seat.taken = arrival.request.sequence;
      seat.sent = arrival.request.sent;
    }
    if (arrival.request.sequence > 0) ++seat.processed;
    handle(seat, arrival);
    moved = true;
  }
  return moved;
}

void Server::leave(Seat& seat) {
  const Clock::time_point now = Clock::now();
  for (const auto& [_, instance] : instances_) {
    instance->shard.part(seat.member.worker, now, answers_);
    after(instance->shard);
  }
}

void Server::end(Seat& seat, Parting how) {
  if (std::exchange(seat.is_over, true)) return;
  --open_seats_;
  seat.has_died = how != Parting::left;
  if (std::exchange(seat.listens, false)) (void)seat.next.cancel();
  seat.next = {};
  seat.arrivals.clear();
  seat.unsent.clear();
  if (cut_ && cut_->owner == seat.member.worker) end_cut();
  tell_parted(seat, how);
  leave(seat);
  send_answers();
}

void Server::tell_parted(const Seat& seat, Parting how) const {
  for (const auto& [_, one] : rules_) {
    if (!one.rule.parted) continue;
    std::uint64_t steps = 0;
    for (const Pushed& each : waiting(one.name)) steps += each.meta.worker == seat.member.worker ? each.meta.steps : 0;
    one.rule.parted(seat.member.worker, how, steps);
  }
}

std::vector<Pushed> Server::waiting(const std::string& rule) const {
  std::vector<Pushed> all;
  for (const auto& [_, instance] : instances_)
    std::ranges::move(instance->shard.waiting(rule), std::back_inserter(all));
  return all;
}

// Called after a shard may have changed: registers it for tick() if one of its rounds has a deadline, or unregisters
// it.
void Server::after(Shard& shard) {
  if (shard.due() == never)
    timed_.erase(&shard);
  else
    timed_.insert(&shard);
}

}  // namespace tutti
