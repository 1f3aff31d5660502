// The loop of a server: which request is done next.
#include "collectives/parameter_server/server.hpp"

#include <algorithm>
#include <set>
#include <utility>

namespace tutti {
namespace {

constexpr std::size_t most_queued = 64 << 20;  // bytes of one worker's payloads, from which on no more headers are read

Buffer bytes_at(void* data, std::size_t bytes) { return {data, bytes, DType::u8}; }

}  // namespace

Server::Server(int number, std::vector<Member> members, const ServerRules& rules,
               const std::map<std::string, std::string>& settings)
    : number_(number), settings_(settings) {
  for (const ServerRules& some : {standard_rules(), rules})
    for (const auto& [name, rule] : some) {
      NamedRule& one = rules_[frames::id_of(name)];
      if (!one.name.empty() && one.name != name)
        throw Error(Code::invalid, "parameter server: rename the rule '" + name +
                                       "', as it cannot be told apart from '" + one.name + "'");
      if (!rule.apply) throw Error(Code::invalid, "parameter server: the rule '" + name + "' has no function");
      one = {name, rule};
    }
  for (Member& member : members) {
    auto seat = std::make_unique<Seat>();
    seat->is_over = !member.pair;
    seat->member = std::move(member);
    by_worker_[seat->member.worker] = seat.get();
    seats_.push_back(std::move(seat));
  }
  for (const auto& seat : seats_)
    if (!seat->is_over) listen(*seat);
}

Server::~Server() {
  for (const auto& seat : seats_)
    if (seat->listens) (void)seat->next.cancel();
}

void Server::abort(const std::string& why) noexcept {
  for (const auto& seat : seats_)
    if (seat->member.pair) seat->member.pair->abort(why);
}

void Server::listen(Seat& seat) {
  seat.next = seat.member.pair->recv(bytes_at(&seat.header, sizeof seat.header), seat.member.peer, frames::requests,
                                     {.timeout = no_deadline});
  seat.listens = true;
}

void Server::run() {
  while (std::ranges::any_of(seats_, [](const auto& seat) { return !seat->is_over; })) {
    wait();
    for (const auto& seat : seats_)
      if (!seat->is_over) look_at(*seat);
    const Clock::time_point now = Clock::now();
    for (Shard* const shard : std::set<Shard*>(timed_)) {
      shard->tick(now, answers_);
      after(*shard);
    }
    send_answers();
  }
}

// For what comes first of each worker and instance: whether it has come meanwhile, or not.
void Server::wait() {
  std::vector<Work> works;
  std::set<std::uint64_t> instances;
  for (const auto& seat : seats_) {
    if (seat->is_over) continue;
    if (seat->listens) works.push_back(seat->next);
    instances.clear();
    for (const Arrival& one : seat->arrivals) {
      const bool is_first = &one == &seat->arrivals.front();
      if (one.request.verb < frames::Verb::push && !is_first) break;
      if (instances.insert(one.request.instance).second) works.push_back(one.work);
    }
  }
  Deadline first = never;
  for (const Shard* const shard : timed_) first = std::min(first, shard->due());
  const Seconds limit = first == never ? Seconds(for_ever) : std::max(Seconds(0), Seconds(first - Clock::now()));
  (void)wait_any(works, limit);
}

// One header after the other, as long as there are some.
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
      if (!seat.is_over && !seat.listens && (seat.queued < most_queued || seat.arrivals.empty())) {
        listen(seat);
        moved = true;
      }
    }
  } catch (const Error&) {  // its pair has ended, most likely with the worker
    end(seat);
  }
}

void Server::take_header(Seat& seat) {
  seat.listens = false;
  seat.next.wait();
  Arrival& arrival = seat.arrivals.emplace_back();
  arrival.request = seat.header;
  if (const std::size_t bytes = seat.header.bytes; bytes > 0) {
    arrival.payload = Block(bytes);
    seat.queued += bytes;
    arrival.work = seat.member.pair->recv(bytes_at(arrival.payload.data(), bytes), seat.member.peer, frames::payloads,
                                          {.keep = arrival.payload.owner()});
  }
}

// What waits for its payload holds up what comes after it for the same instance, and what concerns all of them.
bool Server::work_on_arrivals(Seat& seat) {
  bool moved = false;
  std::set<std::uint64_t> waiting;
  for (std::size_t i = 0; i < seat.arrivals.size() && !seat.is_over;) {
    Arrival& one = seat.arrivals[i];
    const bool is_exchange = one.request.verb >= frames::Verb::push;
    if (!one.work.done() || waiting.contains(one.request.instance) || (!is_exchange && i > 0)) {
      if (!is_exchange) return moved;
      waiting.insert(one.request.instance);
      ++i;
      continue;
    }
    one.work.wait();
    Arrival arrival = std::move(one);
    seat.arrivals.erase(seat.arrivals.begin() + static_cast<std::ptrdiff_t>(i));
    seat.queued -= arrival.request.bytes;
    handle(seat, arrival);
    moved = true;
  }
  return moved;
}

void Server::leave(Seat& seat) {
  seat.has_joined = false;
  const Clock::time_point now = Clock::now();
  for (const auto& [_, instance] : instances_) {
    instance->shard.part(seat.member.worker, now, answers_);
    after(instance->shard);
  }
}

void Server::end(Seat& seat) {
  if (std::exchange(seat.is_over, true)) return;
  if (std::exchange(seat.listens, false)) (void)seat.next.cancel();
  seat.next = {};
  seat.arrivals.clear();
  leave(seat);
  send_answers();
}

// A shard with a round that is open only for a time is looked at again.
void Server::after(Shard& shard) {
  if (shard.due() == never)
    timed_.erase(&shard);
  else
    timed_.insert(&shard);
}

}  // namespace tutti
