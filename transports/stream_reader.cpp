// Cutting bytes into frames.
#include "transports/stream_reader.hpp"

namespace tutti::stream {

bool StreamReader::receive_all(std::size_t budget) {
  ready_.clear();
  more_ = false;
  wire_.poll(ready_);
  bool moved = false;
  const std::size_t count = ready_.size(), first = turn_++,
                    share = std::max(budget / (count + 1), std::size_t{32} << 10);
  for (std::size_t i = 0; i < count; ++i) moved |= receive(ready_[(first + i) % count], share);
  return moved;
}

void StreamReader::drain(int from, std::size_t budget) {
  std::vector<int> ready;
  wire_.poll(ready);
  if (std::find(ready.begin(), ready.end(), from) != ready.end()) receive(from, budget);
}

bool StreamReader::receive(int from, std::size_t budget) {
  Peer& peer = at(from);
  std::size_t moved = 0;
  while (!peer.closed) {
    if (moved >= budget) {
      more_ = true;
      break;
    }
    const bool reading = !peer.body || peer.left > 0;
    const std::size_t got = !peer.body ? read_header(from, peer) : peer.left ? read_payload(from, peer) : 0;
    if (reading && got == 0) break;
    moved += got;
    if (peer.closed || !peer.body || peer.left > 0) continue;
    peer.body = false;
    handler_.end(from, peer.frame, std::exchange(peer.sink, {}), peer.small);
  }
  return moved > 0;
}

std::size_t StreamReader::read_header(int from, Peer& peer) {
  const ConstBytes there = wire_.peek(from);
  const std::size_t taken = std::min(there.size(), sizeof(Frame) - peer.have);
  if (taken == 0) return 0;
  std::memcpy(peer.header + peer.have, there.data(), taken);
  wire_.consume(from, taken);
  peer.have += taken;
  if (peer.have < sizeof(Frame)) return taken;
  peer.have = 0;
  std::memcpy(static_cast<void*>(&peer.frame), peer.header, sizeof(Frame));
  if (const char* const what = peer.frame.malformed(limits_)) {
    refuse(from, what);
    return taken;
  }
  peer.body = true;
  peer.left = peer.frame.payload();
  peer.small.clear();
  const Sink sink = handler_.begin(from, peer.frame);
  if (!peer.closed) peer.sink = sink;
  return taken;
}

std::size_t StreamReader::read_payload(int from, Peer& peer) {
  std::size_t got = 0;
  if (Recv* const recv = peer.sink.recv; recv && !recv->with) {
    got = wire_.read(from, recv->into.subspan(recv->landed, peer.left));
    recv->landed += got;
  } else {
    const ConstBytes there = wire_.peek(from);
    const ConstBytes part = there.first(std::min(there.size(), peer.left));
    got = part.size();
    if (recv)
      recv->land(part);
    else if (peer.sink.arrival)
      peer.sink.arrival->kept.insert(peer.sink.arrival->kept.end(), part.begin(), part.end());
    else if (peer.sink.small)
      peer.small.insert(peer.small.end(), part.begin(), part.end());
    if (got) wire_.consume(from, got);
  }
  peer.left -= got;
  return got;
}

void StreamReader::forget(const Recv& recv) {
  Peer& peer = at(recv.key.peer);
  if (peer.sink.recv == &recv) peer.sink.recv = nullptr;
}

void StreamReader::forget(const Arrival& arrival) {
  Peer& peer = at(arrival.key.peer);
  if (peer.sink.arrival == &arrival) peer.sink.arrival = nullptr;
}

void StreamReader::refuse(int from, const char* what) {
  close(from);
  handler_.malformed(from, what);
}

}  // namespace tutti::stream
