// Splits received bytes into frames.
#include "transports/stream/reader.hpp"

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
  for (const int stream : ready)
    if (peer_of(stream) == from) receive(stream, budget);
}

bool StreamReader::receive(int from, std::size_t budget) {
  Stream& stream = at(from);
  std::size_t moved = 0;
  while (!stream.closed) {
    if (moved >= budget) {
      more_ = true;
      break;
    }
    const bool reading = !stream.body || stream.left > 0;
    const std::size_t got = !stream.body ? read_header(from, stream) : stream.left ? read_payload(from, stream) : 0;
    if (reading && got == 0) break;
    moved += got;
    if (stream.closed || !stream.body || stream.left > 0) continue;
    stream.body = false;
    if (stream.frame.type == FrameType::goodbye) wire_.farewell(from);
    handler_.end(peer_of(from), stream.frame, std::exchange(stream.sink, {}), stream.small);
  }
  return moved > 0;
}

std::size_t StreamReader::read_header(int from, Stream& stream) {
  const ConstBytes there = wire_.peek(from);
  const std::size_t taken = std::min(there.size(), sizeof(Frame) - stream.have);
  if (taken == 0) return 0;
  std::memcpy(stream.header + stream.have, there.data(), taken);
  wire_.consume(from, taken);
  stream.have += taken;
  if (stream.have < sizeof(Frame)) return taken;
  stream.have = 0;
  std::memcpy(static_cast<void*>(&stream.frame), stream.header, sizeof(Frame));
  const char* what = stream.frame.malformed(limits_);
  if (!what && from >= size_ && !stream.frame.anywhere()) what = "a message that is not for a further stream";
  if (what) {
    refuse(peer_of(from), what);
    return taken;
  }
  stream.body = true;
  stream.left = stream.frame.payload();
  stream.small.clear();
  const Sink sink = handler_.begin(peer_of(from), stream.frame);
  if (!stream.closed) stream.sink = sink;
  return taken;
}

std::size_t StreamReader::read_payload(int from, Stream& stream) {
  std::size_t got = 0;
  Landing& into = stream.sink.into;
  if (into.recv && !into.recv->with) {
    got = wire_.read(from, into.recv->into.subspan(into.at, stream.left));
    into.landed(got);
  } else {
    const ConstBytes there = wire_.peek(from);
    const ConstBytes part = there.first(std::min(there.size(), stream.left));
    got = part.size();
    if (into.recv)
      into.land(part);
    else if (stream.sink.arrival)
      stream.sink.arrival->kept.insert(stream.sink.arrival->kept.end(), part.begin(), part.end());
    else if (stream.sink.small)
      stream.small.insert(stream.small.end(), part.begin(), part.end());
    if (got) wire_.consume(from, got);
  }
  stream.left -= got;
  return got;
}

void StreamReader::forget(const Recv& recv) {
  each_of(recv.key.peer, [&](Stream& stream) {
    if (stream.sink.into.recv == &recv) stream.sink.into.recv = nullptr;
  });
}

void StreamReader::forget(const Arrival& arrival) {
  Stream& stream = at(arrival.key.peer);
  if (stream.sink.arrival == &arrival) stream.sink.arrival = nullptr;
}

void StreamReader::close(int from) {
  for (std::size_t i = static_cast<std::size_t>(from); i < streams_.size(); i += static_cast<std::size_t>(size_)) {
    streams_[i] = {};
    streams_[i].closed = true;
  }
}

void StreamReader::refuse(int from, const char* what) {
  close(from);
  handler_.malformed(from, what);
}

}  // namespace tutti::stream
