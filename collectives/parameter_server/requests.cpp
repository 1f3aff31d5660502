// How a server processes each request, and its replies.
#include <algorithm>
#include <cstring>
#include <exception>
#include <new>
#include <utility>

#include "collectives/parameter_server/server.hpp"
#include "collectives/parameter_server/sharding.hpp"
#include "transports/core/checked.hpp"
#include "tutti/memory.hpp"

namespace tutti {

void Server::handle(Seat& seat, Arrival& arrival) {
  const protocol::Request request = arrival.request;
  if (request.values > 0) seat.expected[request.sequence] = request.values;
  try {
    perform(seat, arrival);
  } catch (const std::bad_alloc&) {
    refuse(seat, request, "there is no memory for it at the server; " + size_text(available_memory()) + " are left",
           Code::resource);
  } catch (const std::exception& error) {  // may come from a rule: the server goes on for the other workers
    refuse(seat, request, error.what());
  }
}

void Server::perform(Seat& seat, Arrival& arrival) {
  const protocol::Request& request = arrival.request;
  switch (request.verb) {
    case protocol::Verb::join:
      return reply(seat, {.worker = seat.member.worker, .sequence = request.sequence},
                   number_ == 0 ? serialize(settings_) : std::vector<std::byte>());
    case protocol::Verb::leave:
      leave(seat);
      return reply(seat, {.worker = seat.member.worker, .sequence = request.sequence});
    case protocol::Verb::bye: return end(seat, Parting::left);
    case protocol::Verb::alive: return;
    case protocol::Verb::open: return open(seat, arrival);
    case protocol::Verb::free: return free(seat, request);
    case protocol::Verb::cut: return begin_cut(seat, arrival);
    case protocol::Verb::cut_at: return cut_at(seat, arrival);
    case protocol::Verb::cut_take: return cut_take(seat, request);
    case protocol::Verb::fetch: return fetch(seat, request);
    case protocol::Verb::uncut:
      if (cut_ && cut_->owner == seat.member.worker) end_cut();
      return reply(seat, {.worker = seat.member.worker, .sequence = request.sequence});
    case protocol::Verb::load: return load(seat, arrival);
    case protocol::Verb::push:
    case protocol::Verb::pull:
    case protocol::Verb::push_pull: return exchange(seat, arrival);
  }
  refuse(seat, request, "this version does not know the request");
}

void Server::open(Seat& seat, const Arrival& arrival) {
  const protocol::Request& request = arrival.request;
  Opening opening = Opening::read(arrival.payload.bytes(), servers_);
  const bool counts = std::exchange(opening.counts, true);  // not compared below: it may differ between workers
  std::unique_ptr<Instance>& instance = instances_[request.instance];
  if (!instance) {
    try {
      instance = std::make_unique<Instance>(Instance{opening, Shard(place_of(opening))});
    } catch (...) {
      instances_.erase(request.instance);
      throw;
    }
  } else if (instance->opening != opening) {
    const Opening& first = instance->opening;
    return refuse(seat, request,
                  first.name != opening.name ? "rename it, as it cannot be told apart from '" + first.name + "'"
                                             : "another worker opened it as " + std::to_string(first.count) +
                                                   " elements of " + std::string(name(first.dtype)) +
                                                   "; all must give the same count, type, shares and staleness");
  }
  instance->shard.enter(seat.member.worker, counts);
  reply(seat, {.worker = seat.member.worker, .sequence = request.sequence, .version = instance->shard.version()});
}

/// This server's part of a buffer. Throws std::bad_alloc if the machine has too little memory for it. Otherwise the
/// allocation might succeed, and the kernel end this process later, when it writes to the pages.
Shard::Place Server::place_of(const Opening& opening) const {
  const Range& range = opening.shards[static_cast<std::size_t>(number_)];
  if (range.count * size_of(opening.dtype) > available_memory()) throw std::bad_alloc();
  return {number_, range, opening.dtype, opening.staleness};
}

void Server::free(Seat& seat, const protocol::Request& request) {
  const auto found = instances_.find(request.instance);
  if (found == instances_.end()) return refuse(seat, request, "it is not open");
  Shard& shard = found->second->shard;
  const std::uint64_t version = shard.version();
  shard.part(seat.member.worker, Clock::now(), answers_);
  after(shard);
  if (!shard.is_open()) {
    timed_.erase(&shard);
    instances_.erase(found);
  }
  reply(seat, {.worker = seat.member.worker, .sequence = request.sequence, .version = version});
}

void Server::exchange(Seat& seat, Arrival& arrival) {
  const protocol::Request& request = arrival.request;
  const auto found = instances_.find(request.instance);
  if (found == instances_.end() || !found->second->shard.has(seat.member.worker))
    return refuse(seat, request, "it is not open; open() it, also again after leave() and free()");
  Shard& shard = found->second->shard;
  const Range range{request.offset, request.count}, whole = shard.place().range;
  if (range.offset < whole.offset || !lies_within(range.offset - whole.offset, range.count, whole.count))
    return refuse(seat, request, "the range is not in this server's shard");
  if (request.dtype >= dtype_count) return refuse(seat, request, "there is no such element type");
  const bool wants_values = request.verb != protocol::Verb::push;
  if (request.values != (wants_values ? range.count * size_of(shard.place().dtype) : 0))
    return refuse(seat, request, "the values would not fit what waits for them");
  if (request.verb == protocol::Verb::pull) {
    shard.pull(seat.member.worker, request.sequence, range, answers_);
    return;
  }
  const auto rule = rules_.find(request.rule);
  if (rule == rules_.end()) return refuse(seat, request, "the servers have no rule of this name; give it to them all");
  const bool has_version = request.epoch == epoch_ || request.epoch == protocol::present_epoch;
  PushMeta meta{.worker = seat.member.worker,
                .version = has_version ? request.version : PushMeta::unknown_version,
                .tokens = request.tokens,
                .steps = request.steps,
                .factor = request.factor};
  shard.push({.sequence = request.sequence,
              .name = rule->second.name,
              .rule = &rule->second.rule,
              .range = range,
              .data = std::move(arrival.payload),
              .dtype = static_cast<DType>(request.dtype),
              .meta = meta,
              .wants_values = wants_values},
             Clock::now(), answers_);
  after(shard);
}

void Server::send_answers() {
  while (!answers_.empty())
    for (const Answer& answer : std::exchange(answers_, {}))
      if (Seat& seat = *by_worker_.at(answer.worker); !seat.is_over)
        reply(seat, answer, std::as_bytes(std::span(answer.text)));
}

void Server::refuse(Seat& seat, const protocol::Request& request, const std::string& why, Code code) {
  reply(seat, {.worker = seat.member.worker, .sequence = request.sequence, .code = code},
        std::as_bytes(std::span(why)));
}

// The sends need not wait: the worker posted the receives for header and values before it sent the request.
void Server::reply(Seat& seat, const Answer& answer, ConstBytes text) {
  std::size_t expected = 0;
  if (const auto found = seat.expected.find(answer.sequence); found != seat.expected.end()) {
    expected = found->second;
    seat.expected.erase(found);
  }
  const bool is_small = expected <= protocol::small_values;
  const protocol::Reply header{static_cast<std::uint32_t>(answer.code), static_cast<std::uint32_t>(text.size()), epoch_,
                               answer.version};
  Block message(sizeof header + (is_small ? expected : 0));
  std::memcpy(message.data(), &header, sizeof header);
  if (is_small && expected > 0) {
    if (answer.values.size() == expected)
      std::memcpy(message.data() + sizeof header, answer.values.data(), expected);
    else
      std::memset(message.data() + sizeof header, 0, expected);
  }
  const auto send = [&](const Block& owner, ConstBytes bytes, int tag) {
    return seat.member.pair->send(ConstBuffer(bytes.data(), bytes.size(), DType::u8), seat.member.peer, tag,
                                  {.keep = owner.lease()});
  };
  (void)send(message, message.bytes(), protocol::reply_tag(answer.sequence));
  if (!is_small && !answer.values.empty()) {
    seat.unsent.emplace_back(send(answer.memory, answer.values, protocol::values_tag(answer.sequence)),
                             answer.values.size());
    watch(seat, seat.unsent.back().first);
  }
  if (!text.empty()) {
    const Block copy = Block::copy_of(text);
    (void)send(copy, copy.bytes(), protocol::text_tag(answer.sequence));
  }
}

}  // namespace tutti
