// VerbsWire: large messages, and memory for them.
#include <arpa/inet.h>
#include <sched.h>

#include "transports/core/log.hpp"
#include "transports/ibverbs/wire.hpp"

namespace tutti::ibverbs {
namespace {

constexpr Seconds give_back_time{0.5};  // for a card to give back what a closing queue pair has; a moment, commonly

}  // namespace

/// True where it was about one of these. Whether a peer that does not answer here is silent, or has only closed its
/// end, the slots will tell.
bool VerbsWire::ended_bulk(Link& at, const Ticket& ticket, const ibv_wc& done) {
  if (ticket.what != Ticket::What::put && ticket.what != Ticket::What::filled) return false;
  if (done.status != IBV_WC_SUCCESS)
    at.bulk->undone(ticket, ended_), close_bulk(ticket.peer);
  else if (ticket.what == Ticket::What::put)
    at.bulk->done(ticket.slot, ended_);
  else
    at.bulk->filled(ntohl(done.imm_data), ended_);
  return true;
}

// Messages through the slots, which may be among what completes meanwhile, keep their order in done_.
void VerbsWire::stop_bulk(int peer) {
  Bulk& bulk = *link(peer).bulk;
  bulk.stop();
  for (const Deadline until = deadline_in(give_back_time);;) {
    gather();
    std::erase_if(done_, [&](const ibv_wc& one) {
      const Ticket ticket = Ticket::of(one.wr_id);
      const bool put = ticket.what == Ticket::What::put, filled = ticket.what == Ticket::What::filled;
      if (ticket.peer != peer || (!put && !filled)) return false;
      if (one.status != IBV_WC_SUCCESS)
        bulk.undone(ticket, ended_);
      else if (put)
        bulk.done(ticket.slot, ended_);
      else
        bulk.filled(ntohl(one.imm_data), ended_);
      return true;
    });
    if (bulk.idle() || Clock::now() > until) break;
    ::sched_yield();
  }
  bulk.close(ended_);
}

void VerbsWire::close_bulk(int peer) {
  if (!link(peer).bulk->open()) return;
  stop_bulk(peer);
  log(LogLevel::info, "large messages with rank " + std::to_string(peer) + " are copied from now on", setup_.rank);
  greet(peer, Hello::State::no_bulk);
}

bool VerbsWire::offer(int from, std::uint64_t recv, Bytes into, Place& place) {
  const Link& at = link(from);
  return at.open && at.bulk->offer(recv, into, place);
}

bool VerbsWire::put(int to, std::uint64_t send, ConstBytes data, const Place& place) {
  const Link& at = link(to);
  return at.open && at.bulk->put(send, data, place);
}

void VerbsWire::revoke_offer(int from, std::uint64_t recv) noexcept {
  if (const Link& at = link(from); at.bulk && !at.bulk->revoke_offer(recv)) close_bulk(from);
}

void VerbsWire::revoke_put(int to, std::uint64_t send) noexcept {
  if (const Link& at = link(to); at.bulk && at.bulk->putting(send)) close_bulk(to);
}

void VerbsWire::take_ended(std::vector<Ended>& ended) { std::swap(ended, ended_); }

std::shared_ptr<void> VerbsWire::adopt(std::shared_ptr<void> memory, std::size_t bytes) {
  for (const auto& adapter : adapters_) memory = adapter->memories().keep(std::move(memory), bytes);
  return memory;
}

}  // namespace tutti::ibverbs
