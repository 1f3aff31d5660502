// The server's side of dumps: which requests a dump contains, and the state after exactly these.
//
// First every server stops processing requests. For each worker it replies with the number of the latest request that
// it has processed, and with that request's clock: how many messages the worker had sent to all servers by then. For
// each worker, the worker that makes the dump sends the highest of these numbers to all servers. Each server processes
// the requests up to these numbers as they arrive, and replies how many messages it has processed. The worker repeats
// this until all servers together have processed as many messages as the clocks say. Then each server copies its state
// and goes on. After Chandy & Lamport, "Distributed snapshots", 1985, with a count of messages in place of markers on
// each channel (Mattern, "Algorithms for distributed termination detection", 1987), so that a request carries one
// number however many servers there are.
#include <algorithm>
#include <cstring>
#include <utility>

#include "collectives/parameter_server/server.hpp"

namespace tutti {

bool Server::may_be_taken(const Seat& seat, const Arrival& arrival) const {
  if (!cut_) return true;
  const auto until = cut_->until.find(seat.member.worker);
  return until == cut_->until.end() || arrival.request.sequence <= until->second;
}

// `archive` leaves out the worker that makes the dump: all servers have processed its earlier requests by then.
void Server::begin_cut(Seat& seat, const Arrival& arrival) {
  if (cut_) return refuse(seat, arrival.request, "another worker is making one; try again when it is done");
  kept_ = {};
  cut_ = Cut{seat.member.worker, {}};
  Serializer archive;
  for (const auto& one : seats_) {
    cut_->until[one->member.worker] = one->taken;
    if (one.get() == &seat) continue;
    archive.put(one->member.worker);
    archive.put(one->taken);
    archive.put(one->sent);
  }
  look_at_all_ = true;
  reply(seat, {.worker = seat.member.worker, .sequence = arrival.request.sequence}, archive.bytes());
}

void Server::cut_at(Seat& seat, const Arrival& arrival) {
  if (!cut_ || cut_->owner != seat.member.worker) return refuse(seat, arrival.request, "no dump is being made");
  Deserializer archive(arrival.payload.bytes());
  Serializer processed;
  while (!archive.is_at_end()) {
    const int worker = archive.take<int>();
    std::uint64_t& until = cut_->until[worker];
    until = std::max(until, archive.take<std::uint64_t>());
    const auto found = by_worker_.find(worker);  // not found: a newcomer that take_in() will add later
    const Seat* const one = found == by_worker_.end() ? nullptr : found->second;
    processed.put(worker);
    processed.put<std::uint64_t>(one == nullptr ? 0 : one->processed);
    processed.put<std::uint8_t>(one != nullptr && one->has_died ? 1 : 0);
  }
  look_at_all_ = true;
  reply(seat, {.worker = seat.member.worker, .sequence = arrival.request.sequence}, processed.bytes());
}

void Server::cut_take(Seat& seat, const protocol::Request& request) {
  if (!cut_ || cut_->owner != seat.member.worker) return refuse(seat, request, "no dump is being made");
  end_cut();
  kept_ = Block::copy_of(state());
  Serializer size;
  size.put<std::uint64_t>(kept_.size());
  reply(seat, {.worker = seat.member.worker, .sequence = request.sequence}, size.bytes());
}

void Server::end_cut() {
  cut_.reset();
  look_at_all_ = true;  // requests that the dump has delayed can be processed now
}

void Server::fetch(Seat& seat, const protocol::Request& request) {
  if (kept_.size() == 0 || request.values != kept_.size()) return refuse(seat, request, "no dump has been made");
  const Block kept = std::exchange(kept_, {});
  reply(seat, {.worker = seat.member.worker, .sequence = request.sequence, .memory = kept, .values = kept.bytes()});
}

std::vector<std::byte> Server::state() const {
  Serializer archive;
  archive.put(epoch_);
  archive.put<std::uint64_t>(static_cast<std::uint64_t>(number_));
  archive.put<std::uint64_t>(instances_.size());
  for (const auto& [id, instance] : instances_) {
    archive.put(id);
    archive.put_bytes(instance->opening.serialize());
    instance->shard.save(archive);
  }
  for (const auto& [_, one] : rules_)
    if (one.rule.save) {
      archive.put_text(one.name);
      archive.put_bytes(one.rule.save(waiting(one.name)));
    }
  return archive.take();
}

// Parses the whole dump before changing anything.
void Server::load(Seat& seat, const Arrival& arrival) {
  const auto rule_of = [&](const std::string& name) -> const ServerRule& {
    const auto found = rules_.find(protocol::id_of(name));
    if (found == rules_.end()) throw Error(Code::invalid, "the servers have no rule '" + name + "'; give it to them");
    return found->second.rule;
  };
  Deserializer archive(arrival.payload.bytes());
  const auto epoch = archive.take<std::uint64_t>();
  if (archive.take<std::uint64_t>() != static_cast<std::uint64_t>(number_))
    throw Error(Code::invalid, "this is another server's part of the dump");
  std::unordered_map<std::uint64_t, std::unique_ptr<Instance>> loaded;
  for (auto left = archive.take<std::uint64_t>(); left > 0; --left) {
    const auto id = archive.take<std::uint64_t>();
    const Opening opening = Opening::read(archive.take_bytes(), servers_);
    auto instance = std::make_unique<Instance>(Instance{opening, Shard(place_of(opening))});
    instance->shard.restore(archive, rule_of);
    loaded[id] = std::move(instance);
  }
  std::vector<std::pair<const ServerRule*, ConstBytes>> saved;
  while (!archive.is_at_end()) {
    const ServerRule& rule = rule_of(archive.take_text());
    saved.emplace_back(&rule, archive.take_bytes());
  }
  timed_.clear();
  instances_ = std::move(loaded);
  for (const auto& [rule, bytes] : saved)
    if (rule->load) rule->load(bytes);
  epoch_ = std::max(epoch, epoch_) + 1;
  reply(seat, {.worker = seat.member.worker, .sequence = arrival.request.sequence});
}

}  // namespace tutti
