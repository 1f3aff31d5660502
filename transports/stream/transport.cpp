// StreamTransport: messages over a Wire. This file matches sends with recvs; frames.hpp describes the frames,
// writer.hpp their order, reader.hpp their arrival, and incoming.cpp how they are handled.
//
// A small message is sent at once ("eager") if the receiver has granted credit. A larger one is announced (rendezvous),
// over some wires with its beginning, and the rest is sent in chunks once its recv is posted. So a receiver buffers at
// most the credit per peer, and a message that waits for its recv blocks no other.
#include "transports/stream/transport.hpp"

#include "transports/causes.hpp"
#include "transports/stream/matching.hpp"

namespace tutti {

std::size_t Wire::read(int from, Bytes into) {
  const ConstBytes there = peek(from);
  const std::size_t taken = std::min(there.size(), into.size());
  if (taken == 0) return 0;
  std::memcpy(into.data(), there.data(), taken);
  consume(from, taken);
  return taken;
}

namespace stream {

// ---- starting operations ------------------------------------------------------------------------

const Status* StreamTransport::refusal(int peer, std::uint64_t group) const {
  if (!cancelled_.empty())
    if (const auto found = cancelled_.find(group); found != cancelled_.end()) return &found->second;
  return loss_of(peer);
}

void StreamTransport::send(int to, const Tag& tag, std::uint64_t call, ConstBytes from, Done done) {
  if (const Status* const why = refusal(to, tag.group)) return ledger_.report(std::move(done), *why);
  Send& send = ledger_.sends.take();
  send.key = {to, tag};
  send.call = call;
  send.data = from;
  send.done = std::move(done);
  if (to == rank()) return send_local(send);
  std::size_t& credit = ledger_.credit(to).ours;
  Frame frame(FrameType::eager, tag, call, from.size());
  if (from.size() > ledger_.limits.eager || from.size() > credit) {
    frame.type = FrameType::rts;
    frame.id = send.id;
    const std::size_t start = std::min({ledger_.limits.start, credit, from.size()});
    frame.part = static_cast<std::uint32_t>(start / Frame::alignment * Frame::alignment);
    wire_->expect(to);
  }
  credit -= frame.payload();
  writer_.message(to, frame, send);
  writer_.flush(to, post_budget);
}

void StreamTransport::send_local(Send& send) {
  const Frame frame(FrameType::eager, send.key.tag, send.call, send.data.size());
  if (Recv* const recv = posted_.pop(send.key)) {
    if (agree(rank(), frame, *recv, &send)) locals_.push({&send, {recv}});
    return;
  }
  Arrival& arrival = ledger_.arrivals.take();
  arrival.key = send.key;
  arrival.frame = frame;
  waiting_.push(arrival);
  std::size_t& credit = ledger_.credit(rank()).ours;
  if (send.data.size() > ledger_.limits.eager || send.data.size() > credit) {
    arrival.frame.type = FrameType::rts;
    arrival.local = &send;
    return;
  }
  credit -= send.data.size();
  arrival.kept = ledger_.buffer(send.data.size());
  arrival.kept.assign(send.data.begin(), send.data.end());
  ledger_.finish(send, {});
}

void StreamTransport::post(int from, const Tag& tag, std::uint64_t call, Bytes into, Done done, const std::byte* with,
                           const Fold& fold) {
  const Key key{from, tag};
  Arrival* const arrival = waiting_.pop(key);
  if (const Status* const why = refusal(from, tag.group); why && !arrival) return ledger_.report(std::move(done), *why);
  Recv& recv = ledger_.recvs.take();
  recv.key = key;
  recv.call = call;
  recv.into = into;
  recv.with = with;
  recv.fold = fold;
  recv.done = std::move(done);
  if (!arrival) {
    posted_.push(recv);
    if (from != rank()) wire_->expect(from);
    return;
  }
  meet(*arrival, recv);
  if (from != rank()) writer_.flush(from, post_budget);
}

bool StreamTransport::retract(int from, const Tag& tag, const std::byte* into) {
  Recv* const recv = posted_.pop_if({from, tag}, [&](const Recv& one) { return one.into.data() == into; });
  if (recv) ledger_.recvs.give(*recv);
  return recv != nullptr;
}

// ---- matching -------------------------------------------------------------------------------

// Returns true if message and recv agree in signature and size; else ends both with a mismatch, on both ranks.
bool StreamTransport::agree(int from, const Frame& frame, Recv& recv, Send* local) {
  if (frame.call == recv.call && frame.bytes == recv.into.size()) return true;
  const Cause why =
      mismatch(recv.key.tag, {from, frame.call, frame.bytes}, {rank(), recv.call, recv.into.size()}, rank());
  if (from != rank() && !at(from).gone)
    writer_.urgent(from, {FrameType::reject, recv.key.tag, recv.call, sizeof(Cause), frame.id},
                   {reinterpret_cast<const std::byte*>(&why), sizeof(why)});
  if (local) ledger_.finish(*local, Status(why));
  ledger_.finish(recv, Status(why));
  return false;
}

// Connects a posted recv with a message that has arrived or is arriving.
void StreamTransport::meet(Arrival& arrival, Recv& recv) {
  if (Send* const local = arrival.local) {
    const Frame frame = arrival.frame;
    ledger_.drop(arrival);
    if (agree(recv.key.peer, frame, recv, local)) locals_.push({local, {&recv}});
    return;
  }
  arrival.taker = &recv;
  if (arrival.arrived()) deliver(arrival, recv);
}

void StreamTransport::deliver(Arrival& arrival, Recv& recv) {
  if (agree(arrival.key.peer, arrival.frame, recv)) {
    recv.begun = arrival.kept.size();
    Landing{&recv}.land(arrival.kept);
    if (arrival.announced())
      grant(arrival.frame, recv);
    else
      ledger_.finish(recv, {});
  }
  give_back(arrival.key.peer, arrival.kept.size());
  ledger_.drop(arrival);
}

void StreamTransport::grant(const Frame& frame, Recv& recv) {
  recv.granted = true;
  Frame go(FrameType::cts, frame.tag(), frame.call, recv.id, frame.id);
  RemotePlace place;
  const bool whole = !recv.with && frame.part == 0;
  recv.offered = placing_ && whole && placing_->offer(recv.key.peer, recv.id, recv.into, place);
  if (recv.offered) go.part = sizeof(place);
  writer_.urgent(recv.key.peer, go, ConstBytes(place.told).first(go.part));
}

// Handles direct transfers that completed here or at the peer.
bool StreamTransport::take_placed() {
  placed_.clear();
  placing_->take_ended(placed_);
  for (const auto& [what, number] : placed_) {
    Recv* const recv = what == Placing::Ended::What::filled ? ledger_.recvs.find(number) : nullptr;
    Send* const send = what == Placing::Ended::What::filled ? nullptr : ledger_.sends.find(number);
    if (recv) {
      reader_.forget(*recv);  // the caller owns its memory again, so data still in flight is discarded
      ledger_.finish(*recv, {});
    }
    if (send && what == Placing::Ended::What::put) ledger_.finish(*send, {});
    if (send && what == Placing::Ended::What::failed_put) writer_.stream(*send);
  }
  return !placed_.empty();
}

// Returns credit to the sender `to`: `bytes` of its eager payloads or message beginnings have been consumed.
void StreamTransport::give_back(int to, std::size_t bytes) {
  if (to == rank())
    ledger_.credit(to).ours += bytes;
  else if (!at(to).gone)
    writer_.give_back(to, bytes);
}

bool StreamTransport::copy_locals(std::size_t budget) {
  if (locals_.empty()) return false;
  while (budget > 0 && !locals_.empty()) {
    auto& [send, landing] = locals_.front();
    const std::size_t part = std::min(send->data.size() - send->framed, budget);
    landing.land(send->data.subspan(send->framed, part));
    send->framed += part;
    budget -= part;
    if (send->framed < send->data.size()) continue;
    ledger_.finish(*send, {});
    ledger_.finish(*landing.recv, {});
    locals_.pop();
  }
  return true;
}

bool StreamTransport::progress() {
  bool moved = wire_->drive();
  moved |= reader_.receive_all(step_budget);
  if (!spread_.empty()) [[unlikely]]
    tell_newcomers();
  if (placing_) moved |= take_placed();
  moved |= writer_.flush_all(step_budget);
  moved |= copy_locals(step_budget);
  return ledger_.run() || moved;
}

}  // namespace stream

std::unique_ptr<Transport> make_stream_transport(std::string name, int rank, int size, std::unique_ptr<Wire> wire,
                                                 TransportListener& listener) {
  return std::make_unique<stream::StreamTransport>(std::move(name), rank, size, std::move(wire), listener);
}

}  // namespace tutti
