// Orders outgoing frames and writes them.
#include "transports/stream/writer.hpp"

namespace tutti::stream {
namespace {

// True if `memory` is small enough to be kept for a later urgent payload. The unsent rest of a message may be large.
bool is_spare(const std::vector<std::byte>& memory) noexcept {
  return memory.capacity() > 0 && memory.capacity() <= Transport::max_control;
}

}  // namespace

void StreamWriter::urgent(int to, const Frame& frame, ConstBytes payload) {
  Out out{frame, {}, nullptr, {}};
  if (!payload.empty() && !spares_.empty()) {
    out.owned = std::move(spares_.back());
    spares_.pop_back();
  }
  out.owned.assign(payload.begin(), payload.end());
  at(to).urgent.push(std::move(out));
  activate(to);
}

void StreamWriter::message(int to, const Frame& frame, Send& send) {
  at(to).messages.push({frame, send.data.first(frame.payload()), &send, {}});
  send.framed = frame.payload();
  send.unwritten = 1;
  activate(to);
}

void StreamWriter::stream(Send& send) {
  const int to = send.key.peer;
  at(to).granted.push(&send);
  wire_.widen(to, send.data.size() - send.framed);
  activate(to);
}

void StreamWriter::goodbye(int to) {
  Peer& peer = at(to);
  for (std::size_t nth = 0; nth < peer.streams.size(); ++nth) {
    if (!wire_.open(number(to, nth))) continue;
    peer.streams[nth].ends = true;
    ++peer.goodbyes;
  }
  activate(to);
}

void StreamWriter::give_back(int to, std::size_t bytes) {
  ledger_.credit(to).consumed += bytes;
  if (ledger_.owes(to)) activate(to);
}

void StreamWriter::activate(int to) {
  if (std::exchange(at(to).listed, true)) return;
  active_.push_back(to);
}

// Selects the next frame for a stream; false if there is none.
bool StreamWriter::next(int to, std::size_t nth) {
  Peer& peer = at(to);
  Stream& stream = peer.streams[nth];
  const bool first = nth == 0;
  if (first && !peer.urgent.empty()) {
    stream.current = peer.urgent.pop();
    stream.current.payload = stream.current.owned;
  } else if (first && !peer.messages.empty()) {
    stream.current = peer.messages.pop();
  } else if (!peer.granted.empty()) {
    stream.current = part(to);
  } else if (std::exchange(stream.ends, false)) {
    stream.current = {{FrameType::goodbye, {}, 0, 0}, {}, nullptr, {}};
    stream.current.frame.part = peer.goodbyes;
  } else if (first && ledger_.owes(to)) {
    stream.current = {{FrameType::credit, {}, 0, 0}, {}, nullptr, {}};
  } else {
    return false;
  }
  Credit& credit = ledger_.credit(to);
  stream.current.frame.credit = static_cast<std::uint32_t>(credit.consumed);
  credit.unreturned -= credit.consumed;
  credit.consumed = 0;
  stream.written = 0;
  return stream.busy = true;
}

// The next chunk of the large message whose turn it is. With more open streams, chunks are shorter, so that all streams
// are used.
StreamWriter::Out StreamWriter::part(int to) {
  Peer& peer = at(to);
  Send& send = *peer.granted.pop();
  const ConstBytes rest = send.data.subspan(send.framed);
  const std::size_t longest = ledger_.limits.chunk / open_streams(to) / Frame::alignment * Frame::alignment;
  const ConstBytes bytes = rest.first(std::min(rest.size(), longest));
  const Frame frame(FrameType::data, send.key.tag, send.framed, bytes.size(), send.grant);
  send.framed += bytes.size();
  ++send.unwritten;
  if (bytes.size() < rest.size()) peer.granted.push(&send);
  return {frame, bytes, &send, {}};
}

std::size_t StreamWriter::open_streams(int to) const {
  std::size_t count = 1;
  for (std::size_t nth = 1; nth < wire_.streams_per_peer(); ++nth) count += wire_.open(number(to, nth)) ? 1 : 0;
  return count;
}

void StreamWriter::written(Stream& stream) {
  stream.busy = false;
  if (std::vector<std::byte> owned = std::exchange(stream.current.owned, {}); is_spare(owned))
    spares_.push_back(std::move(owned));
  Send* const send = std::exchange(stream.current.send, nullptr);
  if (send && --send->unwritten == 0 && send->framed == send->data.size()) ledger_.finish(*send, {});
}

// The stream to write next: the first stream if frames are queued that only it may carry, else round-robin.
std::optional<std::size_t> StreamWriter::choose(int to) {
  Peer& peer = at(to);
  const auto goes = [&](std::size_t nth) {
    const Stream& stream = peer.streams[nth];
    if (stream.blocked) return false;
    return stream.busy || ((nth == 0 || wire_.open(number(to, nth))) && next(to, nth));
  };
  if ((!peer.urgent.empty() || !peer.messages.empty()) && goes(0)) return 0;
  const std::size_t count = peer.streams.size();
  for (std::size_t i = 0; i < count; ++i) {
    if (++peer.turn >= count) peer.turn = 0;
    if (goes(peer.turn)) return peer.turn;
  }
  return std::nullopt;
}

// Writes as much of the current frame as fits; returns the number of bytes.
std::size_t StreamWriter::write(int to, std::size_t nth) {
  Stream& stream = at(to).streams[nth];
  Out& out = stream.current;
  const ConstBytes header(reinterpret_cast<const std::byte*>(&out.frame), sizeof(Frame));
  const std::size_t in_header = std::min(stream.written, sizeof(Frame));
  const ConstBytes pieces[] = {header.subspan(in_header), out.payload.subspan(stream.written - in_header)};
  const std::size_t total = pieces[0].size() + pieces[1].size();
  const std::size_t went = wire_.write(number(to, nth), {pieces, pieces[1].empty() ? 1u : 2u});
  stream.written += went;
  if (out.send && stream.written >= sizeof(Frame)) out.send->announced = true;
  stream.blocked = went < total;
  if (!stream.blocked) written(stream);
  return went;
}

bool StreamWriter::flush(int to, std::size_t budget) {
  for (Stream& stream : at(to).streams) stream.blocked = false;
  std::size_t moved = 0;
  while (moved < budget) {
    const std::optional<std::size_t> nth = choose(to);
    if (!nth) break;
    moved += write(to, *nth);
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
  peer.granted.erase_if([&](const Send* one) { return one == &send; });
  for (Stream& stream : peer.streams)
    if (stream.busy && stream.current.send == &send) unsent += withdraw_current(send.key.peer, stream);
  return unsent;
}

std::size_t StreamWriter::withdraw_current(int to, Stream& stream) {
  Out& out = stream.current;
  out.send = nullptr;
  if (stream.written == 0) {
    stream.busy = false;
    Credit& credit = ledger_.credit(to);
    credit.consumed += out.frame.credit;
    credit.unreturned += out.frame.credit;
    return out.frame.type == FrameType::data ? 0 : out.payload.size();
  }
  // Copies the rest instead of sending zeros, because the peer may still accept the message.
  out.owned.assign(out.payload.begin(), out.payload.end());
  out.payload = out.owned;
  return 0;
}

void StreamWriter::clear(int to) {
  Peer& peer = at(to);
  for (Stream& stream : peer.streams) stream = {};
  peer.urgent.clear();
  peer.messages.clear();
  peer.granted.clear();
  ledger_.credit(to).consumed = 0;
}

bool StreamWriter::waits_for_room(int to, const Peer& peer) const noexcept {
  for (std::size_t nth = 0; nth < peer.streams.size(); ++nth) {
    const Stream& stream = peer.streams[nth];
    if (stream.blocked) continue;
    if (stream.busy || stream.ends) return false;
    if (nth == 0 ? peer.queued() || ledger_.owes(to) : !peer.granted.empty() && wire_.open(number(to, nth)))
      return false;
  }
  return true;
}

bool StreamWriter::quiet() const noexcept {
  return std::ranges::all_of(active_, [&](int to) {
    const Peer* const peer = peers_.find(static_cast<std::size_t>(to));
    return peer == nullptr || waits_for_room(to, *peer);
  });
}

}  // namespace tutti::stream
