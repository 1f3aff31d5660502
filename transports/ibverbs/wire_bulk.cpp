// VerbsWire: large messages and registered memory.
#include <arpa/inet.h>
#include <sched.h>

#include "transports/ibverbs/wire.hpp"
#include "tutti/log.hpp"

namespace tutti::ibverbs {
namespace {

constexpr int every_port = 0;
constexpr Seconds give_back_time{0.5};  // for a device to flush the requests of a closing queue pair

}  // namespace

/// Returns true if the completion belonged to a large message. A failure closes only this path (queue pair) of large
/// messages; the queue pair of small messages shows if the peer is lost.
bool VerbsWire::ended_bulk(Link& at, const Ticket& ticket, const ibv_wc& done) {
  if (ticket.what != Ticket::What::put && ticket.what != Ticket::What::filled) return false;
  Bulk& bulk = *at.paths[ticket.path].bulk;
  if (done.status != IBV_WC_SUCCESS)
    bulk.undone(ticket, ended_), close_bulk(ticket.peer, ticket.path);
  else if (ticket.what == Ticket::What::put)
    bulk.done(ticket.slot, ended_);
  else
    bulk.filled(ntohl(done.imm_data), ended_);
  return true;
}

// Completions of slot messages that arrive meanwhile are kept in order in done_.
void VerbsWire::stop_bulk(int peer, std::size_t path) {
  Bulk& bulk = *link(peer).paths[path].bulk;
  const Seconds patience = bulk.stop() ? give_back_time : Seconds(0);
  for (const Deadline until = deadline_in(patience);;) {
    gather();
    std::erase_if(done_, [&](const ibv_wc& one) {
      const Ticket ticket = Ticket::of(one.wr_id);
      const bool put = ticket.what == Ticket::What::put, filled = ticket.what == Ticket::What::filled;
      if (ticket.peer != peer || ticket.path != path || (!put && !filled)) return false;
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

void VerbsWire::close_bulk(int peer, std::size_t path) {
  const Link& at = link(peer);
  if (at.paths[path].bulk->closed()) return;
  stop_bulk(peer, path);
  const bool others = std::ranges::any_of(at.paths, [](const Path& one) { return one.bulk->open(); });
  log(LogLevel::info,
      "large messages with rank " + std::to_string(peer) + " are not put by " + at.paths[path].own.text() +
          " from now on, but " + (others ? "by the other ports" : "copied"),
      setup_.rank);
  greet(peer, Hello::State::no_bulk, path);
}

void VerbsWire::lose_port(const Adapter& adapter, int port) {
  for (std::size_t peer = 0; peer < links_.size(); ++peer) {
    const Link& at = links_[peer];
    for (std::size_t path = 0; at.pair && path < at.paths.size(); ++path)
      if (at.paths[path].adapter == &adapter && (port == every_port || at.paths[path].own.port == port))
        close_bulk(static_cast<int>(peer), path);
  }
}

/// If no pair has its slots on this device, other devices take over its large messages. Otherwise this rank fails,
/// because slots cannot move to another device.
void VerbsWire::lose_device(Adapter& adapter, const std::string& what) {
  const bool slots = std::ranges::any_of(
      links_, [&](const Link& at) { return at.pair && !at.gone && at.paths.front().adapter == &adapter; });
  if (slots) return lose(setup_.rank, Code::resource, what);
  adapter.leave_out();
  lose_port(adapter, every_port);
}

// The receiver chooses the path, and stores its number in the last byte of `place`.
bool VerbsWire::offer(int from, std::uint64_t recv, Bytes into, RemotePlace& place) {
  Link& at = link(from);
  for (std::size_t tried = 0; at.open && tried < at.paths.size(); ++tried) {
    const std::size_t path = at.next++ % at.paths.size();
    if (!at.paths[path].bulk->offer(recv, into, place)) continue;
    place.told.back() = static_cast<std::byte>(path);
    return true;
  }
  return false;
}

bool VerbsWire::put(int to, std::uint64_t send, ConstBytes data, const RemotePlace& place) {
  const Link& at = link(to);
  const auto path = static_cast<std::size_t>(place.told.back());
  return at.open && path < at.paths.size() && at.paths[path].bulk->put(send, data, place);
}

void VerbsWire::revoke_offer(int from, std::uint64_t recv) noexcept {
  const Link& at = link(from);
  for (std::size_t path = 0; at.pair && path < at.paths.size(); ++path)
    if (!at.paths[path].bulk->revoke_offer(recv)) close_bulk(from, path);
}

void VerbsWire::revoke_put(int to, std::uint64_t send) noexcept {
  const Link& at = link(to);
  for (std::size_t path = 0; at.pair && path < at.paths.size(); ++path)
    if (at.paths[path].bulk->putting(send)) close_bulk(to, path);
}

void VerbsWire::take_ended(std::vector<Ended>& ended) { std::swap(ended, ended_); }

std::shared_ptr<void> VerbsWire::adopt(std::shared_ptr<void> memory, std::size_t bytes) {
  for (const auto& adapter : adapters_) memory = adapter->memories().keep(std::move(memory), bytes);
  return memory;
}

}  // namespace tutti::ibverbs
