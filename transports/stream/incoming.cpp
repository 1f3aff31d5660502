// StreamTransport: handling of received frames, failures and shutdown.
#include <sched.h>

#include "transports/causes.hpp"
#include "transports/stream/matching.hpp"

namespace tutti::stream {

// ---- received frames ------------------------------------------------------------------------

Sink StreamTransport::begin(int from, const Frame& frame) {
  if (ledger_.credit(from).ours + frame.credit > ledger_.limits.credit) {
    reader_.refuse(from, "more credit than was used");
    return {};
  }
  ledger_.credit(from).ours += frame.credit;
  switch (frame.type) {
    case FrameType::eager:
    case FrameType::rts: return begin_message(from, frame);
    case FrameType::data: return begin_data(from, frame);
    case FrameType::cts:
    case FrameType::control:
    case FrameType::abort:
    case FrameType::reject: return {{}, nullptr, true};
    default: return {};
  }
}

Sink StreamTransport::begin_message(int from, const Frame& frame) {
  std::size_t& unreturned = ledger_.credit(from).unreturned;
  const std::size_t here = frame.payload();
  if (unreturned + here > ledger_.limits.credit) {
    reader_.refuse(from, "an eager message without credit");
    return {};
  }
  unreturned += here;
  if (!cancelled_.empty() && cancelled_.contains(frame.group)) return {};
  const Key key{from, frame.tag()};
  if (Recv* const recv = posted_.pop(key)) {
    if (!agree(from, frame, *recv)) return {};
    if (frame.type == FrameType::rts) grant(frame, *recv);
    recv->begun = here;
    return {{recv}, nullptr, false};
  }
  Arrival& arrival = ledger_.arrivals.take();
  arrival.key = key;
  arrival.frame = frame;
  if (here) arrival.kept = ledger_.buffer(here);
  waiting_.push(arrival);
  return {{}, &arrival, false};
}

Sink StreamTransport::begin_data(int from, const Frame& frame) {
  Recv* const recv = ledger_.recvs.find(frame.id);
  if (!recv) return {};  // cancelled in the meantime
  if (!recv->granted || recv->key.peer != from || !recv->lacks(frame.call, frame.bytes)) {
    reader_.refuse(from, "data that nobody asked for");
    return {};
  }
  recv->begun += frame.bytes;
  return {{recv, frame.call}, nullptr, false};
}

void StreamTransport::end(int from, const Frame& frame, const Sink& sink, ConstBytes small) {
  switch (frame.type) {
    case FrameType::eager:
    case FrameType::rts:
      if (sink.arrival) {
        if (sink.arrival->taker) deliver(*sink.arrival, *sink.arrival->taker);
        return;
      }
      if (Recv* const recv = sink.into.recv; recv && recv->complete()) withdraw(*recv, {});
      return give_back(from, frame.payload());
    case FrameType::cts: return go_ahead(from, frame, small);
    case FrameType::data:
      if (Recv* const recv = sink.into.recv; recv && recv->complete()) withdraw(*recv, {});
      return;
    case FrameType::credit: return;
    case FrameType::control: return listener_.control(from, small);
    case FrameType::abort: return listener_.failed(Cause::received(small.data()));
    case FrameType::goodbye:  // may overtake frames on another stream
      if (++at(from).goodbyes >= frame.part) lose(from, Status(ended(from, rank())));
      return;
    case FrameType::reject: return rejected(from, frame, small);
  }
}

void StreamTransport::go_ahead(int from, const Frame& frame, ConstBytes told) {
  Send* const send = ledger_.sends.find(frame.id);
  if (!send || send->grant != 0) return;  // cancelled in the meantime
  if (!send->announced || send->key.peer != from || frame.bytes == 0)
    return reader_.refuse(from, "a grant that nobody asked for");
  send->grant = frame.bytes;
  if (placing_ && !told.empty()) {
    RemotePlace place;
    std::memcpy(place.told.data(), told.data(), sizeof(place));
    send->put = placing_->put(from, send->id, send->data, place);
  }
  if (!send->put) writer_.stream(*send);
}

void StreamTransport::rejected(int from, const Frame& frame, ConstBytes cause) {
  const Status why(Cause::received(cause.data()));
  if (Send* const send = ledger_.sends.find(frame.id);
      send && send->announced && send->key.peer == from && send->grant == 0)
    return withdraw(*send, why);
  // For an eager message the send ended long ago, so the mismatch is reported to the communicator.
  if (frame.id == 0 && !cancelled_.contains(frame.group)) listener_.failed(why.cause());
}

void StreamTransport::malformed(int from, const char* what) {
  Cause why;
  why.code = Code::protocol;
  why.culprit = from;
  why.reporter = rank();
  why.say("rank " + std::to_string(from) + " sent rank " + std::to_string(rank()) + " " + what + " over " + name() +
          "; make sure that all ranks run the same version of tutti");
  lose(from, Status(why));
  listener_.failed(why);
}

// ---- control, failure, shutdown -------------------------------------------------------------

void StreamTransport::control(int to, ConstBytes message) {
  if (message.size() > max_control)
    throw Error(Code::invalid, "a control message holds at most 1024 bytes; send() more");
  if (to == rank()) return listener_.control(to, message);
  if (at(to).gone) {
    if (at(to).goodbyes > 0) listener_.departed(to);
    return;
  }
  writer_.urgent(to, {FrameType::control, {}, 0, message.size()}, message);
  writer_.flush(to, post_budget);
  wire_->ring(to);
}

void StreamTransport::spread(const Cause& why) noexcept {
  if (why.code == Code::peer_lost && why.culprit >= 0 && why.culprit < size() && why.culprit != rank()) {
    if (!at(why.culprit).gone) reader_.drain(why.culprit, last_budget);
    lose(why.culprit, Status(why));
  }
  if (wire_->post(why)) return;
  spread_.push_back(why);
  for (int peer = 0; peer < size(); ++peer)
    if (reachable(peer)) tell_all(peer);
}

/// Tells the peer the causes that it has not been told yet.
void StreamTransport::tell_all(int peer) {
  for (std::size_t& told = at(peer).told; told < spread_.size(); ++told) tell(peer, spread_[told]);
}

// Peers that connect after a failure would wait for ever for a rank that has ended their communicator.
void StreamTransport::tell_newcomers() {
  for (const int stream : reader_.ready()) {
    const int peer = stream % size();
    if (reachable(peer) && at(peer).told < spread_.size()) tell_all(peer);
  }
}

/// Closes the link with a peer that is gone. Unless it has said goodbye, it may live: if it were not told that it
/// counts as lost, it would report this rank as lost, which has closed the link.
void StreamTransport::drop(int peer) {
  const bool has_left = at(peer).goodbyes > 0;
  if (!has_left && wire_->open(peer) && at(peer).gone->code() == Code::peer_lost) {
    tell(peer, at(peer).gone->cause());
    std::vector<int> ignored;
    for (int i = 0; i < last_flushes && !writer_.empty(peer); ++i) {
      wire_->poll(ignored);
      writer_.flush(peer, post_budget);
    }
  }
  writer_.clear(peer);
  wire_->drop(peer);
}

void StreamTransport::tell(int peer, const Cause& why) {
  writer_.urgent(peer, {FrameType::abort, {why.group, 0, 0}, 0, sizeof(why)},
                 {reinterpret_cast<const std::byte*>(&why), sizeof(why)});
  writer_.flush(peer, post_budget);
  wire_->ring(peer);
}

// Ends an operation that may be in progress; from then on its buffers belong to the caller again.
void StreamTransport::withdraw(Recv& recv, const Status& why) {
  if (recv.offered) placing_->revoke_offer(recv.key.peer, recv.id);
  ledger_.finish(recv, why);
}

void StreamTransport::withdraw(Send& send, const Status& why) {
  if (send.put) placing_->revoke_put(send.key.peer, send.id);
  if (send.key.peer != rank()) ledger_.credit(send.key.peer).ours += writer_.withdraw(send);
  ledger_.finish(send, why);
}

// Fails all operations that need `peer`. Messages that have arrived in full can still be received. A peer that ends
// normally has received what it has offered a place for: then only the acknowledgement of a put is missing.
void StreamTransport::lose(int peer, const Status& why) {
  if (at(peer).gone) return;
  if (placing_) take_placed();  // puts that completed before the loss was reported count as received
  at(peer).gone = why;
  reader_.close(peer);
  drop(peer);
  ledger_.arrivals.each([&](Arrival& arrival) {
    if (arrival.key.peer != peer || arrival.complete()) return;
    if (!arrival.taker) waiting_.erase(arrival);
    ledger_.drop(arrival);
  });
  const bool has_left = at(peer).goodbyes > 0;
  ledger_.sends.each([&](Send& send) {
    if (send.key.peer == peer) ledger_.finish(send, has_left && send.put ? Status() : why);
  });
  ledger_.recvs.each([&](Recv& recv) {
    if (recv.key.peer != peer) return;
    posted_.erase(recv);
    ledger_.finish(recv, why);
  });
}

void StreamTransport::cancel(std::uint64_t group, const Status& why) noexcept {
  const auto concerned = [&](const Key& key) {
    if (group != 0 && key.tag.group != group) return false;
    cancelled_.try_emplace(key.tag.group, why);
    return true;
  };
  if (group != 0) cancelled_.try_emplace(group, why);
  locals_.erase_if([&](const Local& local) { return concerned(local.send->key); });
  ledger_.arrivals.each([&](Arrival& arrival) {
    if (!concerned(arrival.key)) return;
    if (!arrival.taker) waiting_.erase(arrival);
    reader_.forget(arrival);  // if the message is still arriving, its credit is returned once it is complete
    if (arrival.arrived()) give_back(arrival.key.peer, arrival.kept.size());
    ledger_.drop(arrival);
  });
  ledger_.sends.each([&](Send& send) {
    if (concerned(send.key)) withdraw(send, why);
  });
  ledger_.recvs.each([&](Recv& recv) {
    if (!concerned(recv.key)) return;
    posted_.erase(recv);
    reader_.forget(recv);
    withdraw(recv, why);
  });
  ledger_.run();
}

void StreamTransport::leave() noexcept {
  const Deadline until = deadline_in(farewell_time);
  ledger_.sends.each([&](Send& send) {
    if (send.key.peer != rank()) writer_.withdraw(send);
  });
  std::vector<int> open, ready;
  for (int peer = 0; peer < size(); ++peer)
    if (reachable(peer)) {
      open.push_back(peer);
      writer_.goodbye(peer);
    }
  const auto done = [&] {
    return std::all_of(open.begin(), open.end(), [&](int peer) { return writer_.empty(peer); });
  };
  while (writer_.flush_all(step_budget), !done() && Clock::now() < until) {
    wire_->poll(ready);
    ready.clear();
    sched_yield();
  }
  wire_->close(until);
}

}  // namespace tutti::stream
