// The order of outgoing frames, and writing them.
#include "transports/stream_writer.hpp"

namespace tutti::stream {

void StreamWriter::urgent(int to, const Frame& frame, ConstBytes payload) {
  Out out{frame, {}, nullptr, std::vector<std::byte>(payload.begin(), payload.end())};
  at(to).urgent.push(std::move(out));
  activate(to);
}

void StreamWriter::message(int to, const Frame& frame, Send* send) {
  at(to).messages.push({frame, send ? send->data.first(frame.payload()) : ConstBytes{}, send, {}});
  activate(to);
}

void StreamWriter::stream(Send& send) {
  at(send.key.peer).streams.push(&send);
  activate(send.key.peer);
}

void StreamWriter::give_back(int to, std::size_t bytes) {
  ledger_.credit(to).consumed += bytes;
  if (owes(to)) activate(to);
}

void StreamWriter::activate(int to) {
  if (std::exchange(at(to).listed, true)) return;
  active_.push_back(to);
}

bool StreamWriter::next(int to, Peer& peer) {
  if (!peer.urgent.empty()) {
    peer.current = peer.urgent.pop();
    peer.current.payload = peer.current.owned;
  } else if (!peer.messages.empty()) {
    peer.current = peer.messages.pop();
  } else if (!peer.streams.empty()) {
    Send& send = *peer.streams.pop();
    const std::size_t part = std::min(send.data.size() - send.framed, ledger_.limits.chunk);
    peer.current = {
        {FrameType::data, send.key.tag, send.call, part, send.grant}, send.data.subspan(send.framed, part), &send, {}};
  } else if (owes(to)) {
    peer.current = {{FrameType::credit, {}, 0, 0}, {}, nullptr, {}};
  } else {
    return false;
  }
  Credit& credit = ledger_.credit(to);
  peer.current.frame.credit = static_cast<std::uint32_t>(credit.consumed);
  credit.unreturned -= credit.consumed;
  credit.consumed = 0;
  peer.written = 0;
  return peer.busy = true;
}

void StreamWriter::written(Peer& peer) {
  peer.busy = false;
  Send* const send = std::exchange(peer.current.send, nullptr);
  if (!send) return;
  send->framed += peer.current.payload.size();
  if (peer.current.frame.type == FrameType::rts) return;  // the rest waits for the cts
  if (send->framed == send->data.size())
    ledger_.finish(*send, {});
  else
    peer.streams.push(send);
}

bool StreamWriter::flush(int to, std::size_t budget) {
  Peer& peer = at(to);
  peer.blocked = false;
  std::size_t moved = 0;
  while (moved < budget && (peer.busy || next(to, peer))) {
    const ConstBytes header(reinterpret_cast<const std::byte*>(&peer.current.frame), sizeof(Frame));
    const std::size_t in_header = std::min(peer.written, sizeof(Frame));
    const ConstBytes pieces[] = {header.subspan(in_header), peer.current.payload.subspan(peer.written - in_header)};
    const std::size_t total = pieces[0].size() + pieces[1].size();
    const std::size_t went = wire_.write(to, {pieces, pieces[1].empty() ? 1u : 2u});
    moved += went;
    peer.written += went;
    if (peer.current.send && peer.written >= sizeof(Frame)) peer.current.send->announced = true;
    if (went < total) {
      peer.blocked = true;
      break;
    }
    written(peer);
  }
  return moved > 0;
}

bool StreamWriter::flush_all(std::size_t budget) {
  if (active_.empty()) return false;
  bool moved = false;
  const std::size_t count = active_.size(), first = turn_++ % count,
                    share = std::max(budget / count, ledger_.limits.chunk / 2);
  for (std::size_t i = 0; i < count; ++i) moved |= flush(active_[(first + i) % count], share);
  std::erase_if(active_, [&](int to) { return empty(to) && (at(to).listed = false, true); });
  return moved;
}

std::size_t StreamWriter::withdraw(Send& send) {
  Peer& peer = at(send.key.peer);
  std::size_t unsent = 0;
  peer.messages.erase_if([&](const Out& out) {
    if (out.send != &send) return false;
    unsent += out.payload.size();
    return true;
  });
  peer.streams.erase_if([&](const Send* one) { return one == &send; });
  if (!peer.busy || peer.current.send != &send) return unsent;
  Out& out = peer.current;
  out.send = nullptr;
  if (peer.written == 0) {
    peer.busy = false;
    Credit& credit = ledger_.credit(send.key.peer);
    credit.consumed += out.frame.credit;
    credit.unreturned += out.frame.credit;
    return out.frame.type == FrameType::data ? 0 : out.payload.size();
  }
  // The rest is copied, not filled with zeros: the peer may still take the message for good.
  out.owned.assign(out.payload.begin(), out.payload.end());
  out.payload = out.owned;
  return 0;
}

void StreamWriter::clear(int to) {
  Peer& peer = at(to);
  peer.busy = false;
  peer.current = {};
  peer.urgent.clear();
  peer.messages.clear();
  peer.streams.clear();
  ledger_.credit(to).consumed = 0;
}

bool StreamWriter::quiet() const noexcept {
  return std::all_of(active_.begin(), active_.end(), [&](int to) { return at(to).blocked || empty(to); });
}

}  // namespace tutti::stream
